import { test } from 'vitest';
import { ollama } from './models/ollama.ts';
import { expectExample, expectResults, expectStrictness, withModel } from './support/loop.ts';

test('the official client of Ollama runs parallel calls, one of them failing and one with an image', () =>
  withModel(ollama, async (model) => {
    await expectExample('ollama.ts', model, { OLLAMA_HOST: model.url });
    expectResults(model, { hasFlag: false, image: 'image/*' });
    expectStrictness(ollama, model);
  }));
