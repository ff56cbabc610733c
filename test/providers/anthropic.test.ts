import { test } from 'vitest';
import { describeWithProgram } from '../support/programs.ts';
import { anthropic } from './models/anthropic.ts';
import { expectExample, expectResults, expectStrictness, modelKey, withModel } from './support/loop.ts';

test('the official client of Anthropic runs parallel calls, one of them failing and one with an image', () =>
  withModel(anthropic, async (model) => {
    await expectExample('anthropic.ts', model, {
      ANTHROPIC_API_KEY: modelKey,
      ANTHROPIC_BASE_URL: model.url,
    });
    expectResults(model, { hasFlag: true, image: 'image/png' });
    expectStrictness(anthropic, model);
  }));

describeWithProgram('python3', 'a loop in Python', () => {
  test('does the same by plain HTTP', () =>
    withModel(anthropic, async (model) => {
      await expectExample('anthropic.py', model, {
        ANTHROPIC_API_KEY: modelKey,
        ANTHROPIC_BASE_URL: model.url,
      });
      expectResults(model, { hasFlag: true, image: 'image/png' });
    }));
});
