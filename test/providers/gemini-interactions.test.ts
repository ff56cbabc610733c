import { test } from 'vitest';
import { geminiInteractions } from './models/gemini-interactions.ts';
import { expectExample, expectResults, expectStrictness, modelKey, withModel } from './support/loop.ts';

test('the official client of Gemini Interactions runs parallel calls, one of them failing and one with an image', () =>
  withModel(geminiInteractions, async (model) => {
    await expectExample('gemini-interactions.ts', model, {
      GEMINI_API_KEY: modelKey,
      GOOGLE_GEMINI_BASE_URL: model.url,
    });
    expectResults(model, { hasFlag: true, image: 'image/png' });
    expectStrictness(geminiInteractions, model);
  }));
