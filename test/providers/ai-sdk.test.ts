import { test } from 'vitest';
import { openaiResponses } from './models/openai-responses.ts';
import { expectExample, expectResults, modelKey, withModel } from './support/loop.ts';

test('the Vercel AI SDK runs parallel calls, one of them failing and one with an image', () =>
  withModel(openaiResponses, async (model) => {
    const env = { OPENAI_API_KEY: modelKey, OPENAI_BASE_URL: `${model.url}/v1` };
    await expectExample('ai-sdk.ts', model, env);
    expectResults(model, { hasFlag: false, image: 'image/png', by: 'framework' });
  }));
