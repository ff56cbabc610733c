import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, inject } from 'vitest';
import { repositoryFolder } from '../../support/callgate.ts';
import { lastWords, type ModelServer, modelKey, startModelServer } from './model-server.ts';
import type { Asked, Provider } from './provider.ts';
import { type Body, Refusal } from './schema.ts';

/** What is asked of the models of the tests. */
export const question = 'Is all well?';

/** A call that succeeds, one that fails, and one whose result has an image. */
export const wanted: readonly Omit<Asked, 'id'>[] = [
  { name: 'everything__echo', input: { message: 'hello' } },
  { name: 'lab__fail', input: {} },
  { name: 'everything__get-tiny-image', input: {} },
];

/** Runs a loop against a model that asks for some calls at once, and then wants to see what became of them. */
export async function withModel(
  provider: Provider,
  loop: (model: ModelServer) => Promise<void>,
  calls: readonly Omit<Asked, 'id'>[] = wanted,
): Promise<void> {
  const model = await startModelServer(provider, calls);
  try {
    await loop(model);
  } finally {
    model.stop();
  }
}

const hooks = fileURLToPath(new URL('resolve-here.mjs', import.meta.url));

/** Runs one of the examples to its end, as somebody would who has its packages installed. */
export function runExample(
  file: string,
  env: Readonly<Record<string, string>>,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const { url, token } = inject('callgate');
  const path = join(repositoryFolder, 'examples/loops', file);
  const [program, ...args] = file.endsWith('.py')
    ? ['python3', path]
    : [process.execPath, '--no-warnings', '--import', hooks, path];
  const child = spawn(program as string, [...args, question], {
    env: { PATH: process.env.PATH, CALLGATE_URL: url, CALLGATE_TOKEN: token, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (chunk: string) => {
      output[name] += chunk;
    });
  }
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, ...output })));
}

/** Runs an example with a model, and expects that it ends with the model's last words and that nothing was refused. */
export async function expectExample(
  file: string,
  model: ModelServer,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const { code, stdout, stderr } = await runExample(file, env);
  expect(model.refusals).toEqual([]);
  expect(stderr).toBe('');
  expect(stdout.trim()).toBe(lastWords);
  expect(code).toBe(0);
}

/** Expects that the model was shown the three results for what they are, written by callgate or by a framework. */
export function expectResults(
  { seen }: ModelServer,
  shown: { hasFlag: boolean; image: string | undefined; by?: 'framework' },
): void {
  expect(seen).toHaveLength(3);
  const [good, bad, image] = seen;
  expect(good?.text).toContain('Echo: hello');
  expect(bad?.text).toContain('quota exceeded');
  expect(image?.images).toEqual(shown.image === undefined ? [] : [shown.image]);
  expect(seen.map(({ text }) => text).join()).not.toMatch(/[A-Za-z0-9+/]{200}/);
  if (shown.by === 'framework') return;
  if (shown.hasFlag) expect(seen.map(({ isError }) => isError)).toEqual([false, true, false]);
  else expect(bad?.text).toMatch(/"ok":false|^\[tool error\]/);
  expect(image?.text).toMatch(/\[image image\/png, \d+ bytes/);
}

/** Expects that the model refuses the results where anything about them is other than the API wants it. */
export function expectStrictness(provider: Provider, model: ModelServer): void {
  const changes: Readonly<Record<string, (body: Body, answered: Body[]) => unknown>> = {
    'an unknown member': (body) => Object.assign(body, { surprise: 1 }),
    'an unknown member of a result': (_, answered) => Object.assign(answered.at(-1) ?? {}, { surprise: 1 }),
    'a missing result': (_, answered) => answered.pop(),
    'a result that stands twice': (_, answered) => answered.push(answered.at(-1) ?? {}),
    'another order': (_, answered) => answered.push(...answered.splice(-2, 1)),
  };
  for (const [name, change] of Object.entries(changes)) {
    const body = structuredClone(model.requests[1] ?? {});
    change(body, provider.answered(body));
    expect(() => model.check(body), name).toThrow(Refusal);
  }
}

export { modelKey };
