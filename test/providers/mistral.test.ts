import { test } from 'vitest';
import { mistral } from './models/mistral.ts';
import { expectExample, expectResults, expectStrictness, modelKey, withModel } from './support/loop.ts';

test('the official client of Mistral runs parallel calls, one of them failing and one with an image', () =>
  withModel(mistral, async (model) => {
    await expectExample('mistral.ts', model, { MISTRAL_API_KEY: modelKey, MISTRAL_URL: model.url });
    expectResults(model, { hasFlag: false, image: 'image/png' });
    expectStrictness(mistral, model);
  }));
