import { test } from 'vitest';
import { describeWithProgram } from '../support/programs.ts';
import { openaiResponses } from './models/openai-responses.ts';
import { expectExample, expectResults, expectStrictness, modelKey, withModel } from './support/loop.ts';

test('the official client of the OpenAI Responses API runs parallel calls, one of them failing and one with an image', () =>
  withModel(openaiResponses, async (model) => {
    await expectExample('openai-responses.ts', model, {
      OPENAI_API_KEY: modelKey,
      OPENAI_BASE_URL: `${model.url}/v1`,
    });
    expectResults(model, { hasFlag: false, image: 'image/png' });
    expectStrictness(openaiResponses, model);
  }));

describeWithProgram('python3', 'a loop in Python', () => {
  test('does the same by plain HTTP', () =>
    withModel(openaiResponses, async (model) => {
      await expectExample('openai-responses.py', model, {
        OPENAI_API_KEY: modelKey,
        OPENAI_BASE_URL: `${model.url}/v1`,
      });
      expectResults(model, { hasFlag: false, image: 'image/png' });
    }));
});
