import { test } from 'vitest';
import { openaiResponses } from './models/openai-responses.ts';
import { expectExample, expectResults, modelKey, wanted, withModel } from './support/loop.ts';

// This framework declares names with underscores alone.
const spelled = wanted.map((call) => ({ ...call, name: call.name.replaceAll('-', '_') }));

test('the OpenAI Agents SDK runs parallel calls, one of them failing and one with an image', () =>
  withModel(
    openaiResponses,
    async (model) => {
      const env = { OPENAI_API_KEY: modelKey, OPENAI_BASE_URL: `${model.url}/v1` };
      await expectExample('openai-agents.ts', model, { ...env, OPENAI_AGENTS_DISABLE_TRACING: '1' });
      expectResults(model, { hasFlag: false, image: 'image/png', by: 'framework' });
    },
    spelled,
  ));
