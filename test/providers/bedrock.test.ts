import { test } from 'vitest';
import { bedrock } from './models/bedrock.ts';
import { expectExample, expectResults, expectStrictness, modelKey, withModel } from './support/loop.ts';

test('the official client of Amazon Bedrock runs parallel calls, one of them failing and one with an image', () =>
  withModel(bedrock, async (model) => {
    await expectExample('bedrock.ts', model, {
      AWS_REGION: 'us-east-1',
      AWS_ENDPOINT_URL_BEDROCK_RUNTIME: model.url,
      AWS_ACCESS_KEY_ID: modelKey,
      AWS_SECRET_ACCESS_KEY: 'x',
    });
    expectResults(model, { hasFlag: true, image: 'image/png' });
    expectStrictness(bedrock, model);
  }));
