import { describe, test } from 'vitest';
import { gemini } from './models/gemini.ts';
import { expectExample, expectResults, expectStrictness, modelKey, withModel } from './support/loop.ts';

describe('the official client of Gemini runs parallel calls, one of them failing and one with an image', () => {
  test.each([
    { name: 'gemini-3-pro', isOld: false, image: 'image/png' },
    { name: 'gemini-2.5-flash', isOld: true, image: undefined },
  ])('with $name', async ({ name, isOld, image }) => {
    const provider = gemini(name, isOld);
    await withModel(provider, async (model) => {
      await expectExample('gemini.ts', model, {
        GEMINI_API_KEY: modelKey,
        GOOGLE_GEMINI_BASE_URL: model.url,
        GEMINI_MODEL: name,
      });
      expectResults(model, { hasFlag: true, image });
      expectStrictness(provider, model);
    });
  });
});
