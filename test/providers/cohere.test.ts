import { test } from 'vitest';
import { cohere } from './models/cohere.ts';
import { expectExample, expectResults, expectStrictness, modelKey, withModel } from './support/loop.ts';

test('the official client of Cohere runs parallel calls, one of them failing and one with an image', () =>
  withModel(cohere, async (model) => {
    await expectExample('cohere.ts', model, { CO_API_KEY: modelKey, CO_API_URL: model.url });
    expectResults(model, { hasFlag: false, image: undefined });
    expectStrictness(cohere, model);
  }));
