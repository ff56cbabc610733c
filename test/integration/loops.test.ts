import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repositoryFolder, startCallgate } from '../support/callgate.ts';
import { exampleConfig } from '../support/example-config.ts';
import { functionCall, message, startModelServer } from '../support/model-server.ts';
import { describeWithProgram } from '../support/programs.ts';

const loopFile = join(repositoryFolder, 'examples/loops/openai-responses.py');

function runLoop(
  question: string,
  env: Readonly<Record<string, string>>,
): Promise<{ code: number | null; output: string }> {
  const child = spawn('python3', [loopFile, question], { env: { ...process.env, ...env } });
  let output = '';
  for (const pipe of [child.stdout, child.stderr]) {
    pipe.on('data', (chunk) => {
      output += chunk;
    });
  }
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })));
}

describeWithProgram('python3', 'the loop in Python', () => {
  test('asks the model, runs its calls through callgate, and prints its last words', async () => {
    const model = await startModelServer([
      [
        { type: 'reasoning', id: 'rs_1', summary: [] },
        functionCall('call_a', 'docs__search', { query: 'refund' }),
        functionCall('call_b', 'tickets__search', { query: 'private' }),
      ],
      [functionCall('call_c', 'docs__read_page', { page: 'refunds' })],
      [message('Refunds take 14 days.')],
    ]);
    const gate = await startCallgate(exampleConfig());
    try {
      const { code, output } = await runLoop('How long does a refund take?', {
        OPENAI_BASE_URL: model.url,
        OPENAI_API_KEY: 'model-key',
        CALLGATE_URL: gate.url,
        CALLGATE_TOKEN: await gate.token(['tools:docs:*', 'tools:tickets:*:read']),
      });

      expect(output.trim()).toBe('Refunds take 14 days.');
      expect(code).toBe(0);
      expect(model.requests).toHaveLength(3);
      expect(model.requests[0]?.tools.map((tool) => tool.name)).toContain('docs__search');
      const outputs = model.requests[2]?.input.filter((item) => item.type === 'function_call_output') ?? [];
      expect(outputs.map((item) => item.call_id)).toEqual(['call_a', 'call_b', 'call_c']);
      expect(outputs.map((item) => JSON.parse(String(item.output)).ok)).toEqual([true, false, true]);
    } finally {
      model.stop();
      await gate.stop();
    }
  });
});

test('every loop stays under 40 lines', () => {
  const folder = join(repositoryFolder, 'examples/loops');
  for (const name of readdirSync(folder)) {
    const lines = readFileSync(join(folder, name), 'utf8').trimEnd().split('\n');
    expect(lines.length, name).toBeLessThan(40);
  }
});
