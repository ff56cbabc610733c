import { test } from 'vitest';
import { openaiChat } from './models/openai-chat.ts';
import { expectExample, expectResults, expectStrictness, modelKey, withModel } from './support/loop.ts';

test('the official client of OpenAI Chat Completions runs parallel calls, one of them failing and one with an image', () =>
  withModel(openaiChat, async (model) => {
    await expectExample('openai-chat.ts', model, {
      OPENAI_API_KEY: modelKey,
      OPENAI_BASE_URL: `${model.url}/v1`,
    });
    expectResults(model, { hasFlag: false, image: undefined });
    expectStrictness(openaiChat, model);
  }));
