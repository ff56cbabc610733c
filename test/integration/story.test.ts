import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Callgate, type Execution, startCallgate } from '../support/callgate.ts';
import { exampleConfig } from '../support/example-config.ts';
import { labConfig } from '../support/lab.ts';

interface Declarations {
  readonly tools: readonly {
    readonly type: string;
    readonly name: string;
    readonly description: string;
    readonly parameters: Record<string, unknown>;
  }[];
}

const declaredNames = async (gate: Callgate, token: string): Promise<readonly string[]> => {
  const { body } = await gate.get<Declarations>('/v1/declarations?format=openai-responses', { token });
  return body.tools.map((tool) => tool.name);
};

const withoutExclusions = () => {
  const config = exampleConfig();
  const servers = {
    docs: { tools: { search: { class: 'read' } } },
    tickets: { tools: { search: { class: 'read' } } },
  };
  return { ...config, callgate: { servers } };
};

describe('the story of a host with two servers that both offer `search`', () => {
  let gate: Callgate;
  let docsReader: string;
  let bothReader: string;

  beforeAll(async () => {
    gate = await startCallgate(exampleConfig());
    docsReader = await gate.token(['tools:docs:*']);
    bothReader = await gate.token(['tools:docs:*:read', 'tools:tickets:*:read']);
  });
  afterAll(async () => {
    expect(await gate.stop()).toBe(0);
  });

  /** What the servers ran while this happened. */
  const ranDuring = async (happening: () => Promise<void>): Promise<readonly Execution[]> => {
    const before = gate.executions().length;
    await happening();
    return gate.executions().slice(before);
  };

  test('H1: every tool becomes a function declaration with the input schema of its server', async () => {
    const { status, body } = await gate.get<Declarations>('/v1/declarations?format=openai-responses', {
      token: bothReader,
    });

    expect(status).toBe(200);
    expect(body.tools.map((tool) => tool.name)).toEqual([
      'docs__read_page',
      'docs__search',
      'tickets__get_ticket',
      'tickets__search',
    ]);
    expect(body.tools[1]).toMatchObject({
      type: 'function',
      name: 'docs__search',
      description:
        '[product handbook] Searches the product handbook and returns the pages that mention a word.',
      parameters: {
        type: 'object',
        properties: {
          query: { type: 'string', examples: ['refund'] },
          limit: { type: 'integer', minimum: 1, maximum: 20 },
        },
        required: ['query'],
        additionalProperties: false,
      },
    });
  });

  test('H2, H10: the two `search` tools answer from different sources', async () => {
    const docs = await gate.call(bothReader, 'call_docs', 'docs__search', { query: 'refund' });
    const tickets = await gate.call(bothReader, 'call_tickets', 'tickets__search', { query: 'refund' });

    expect(docs.envelope.content[0]?.text).toContain('docs/refunds');
    expect(docs.envelope.content[0]?.text).not.toContain('tickets/');
    expect(tickets.envelope.content[0]?.text).toContain('tickets/T-1');
    expect(tickets.envelope.content[0]?.text).not.toContain('docs/');
  });

  test('H3: the tool that crashes its server is neither listed nor callable, on either server', async () => {
    const owner = await gate.token(['tools:docs:*', 'tools:tickets:*']);
    expect((await declaredNames(gate, owner)).filter((name) => name.includes('crash'))).toEqual([]);

    const ran = await ranDuring(async () => {
      for (const alias of ['docs', 'tickets']) {
        const { envelope } = await gate.call(owner, `call_crash_${alias}`, `${alias}__crash_for_test`, {});
        expect(envelope).toMatchObject({
          ok: false,
          error: { code: 'unknown_tool', may_have_executed: false },
        });
      }
    });
    expect(ran).toEqual([]);
  });

  test('H4: who calls is told by the token and never by the arguments', async () => {
    const claims = { query: 'refund', actor: 'admin', scope: 'tools:tickets:*', sub: 'admin' };

    const ran = await ranDuring(async () => {
      const { envelope } = await gate.call(docsReader, 'call_claim', 'tickets__search', claims);
      expect(envelope).toMatchObject({ ok: false, error: { code: 'forbidden' } });
    });
    expect(ran).toEqual([]);
  });

  test("H5: the result is a `function_call_output` with the model's call id and a JSON text", async () => {
    const { httpStatus, item, headers } = await gate.call(docsReader, 'call_5', 'docs__search', {
      query: 'refund',
    });

    expect(httpStatus).toBe(200);
    expect(item).toEqual({
      type: 'function_call_output',
      call_id: 'call_5',
      output: JSON.stringify({
        ok: true,
        content: [{ type: 'text', text: 'docs/refunds: Refunds\ndocs/shipping: Shipping' }],
      }),
    });
    expect(headers.get('callgate-status')).toBe('succeeded');
    expect(headers.get('callgate-id')).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('H6: a wrong argument type, an unknown name and a missing grant never reach a server', async () => {
    const ran = await ranDuring(async () => {
      const wrongType = await gate.call(docsReader, 'call_6a', 'docs__search', { query: 42 });
      expect(wrongType.httpStatus).toBe(200);
      expect(wrongType.envelope).toMatchObject({
        ok: false,
        error: { code: 'invalid_arguments', may_have_executed: false },
      });

      const unknown = await gate.call(docsReader, 'call_6b', 'docs__delete_everything', {});
      expect(unknown.envelope).toMatchObject({
        ok: false,
        error: { code: 'unknown_tool', may_have_executed: false },
      });

      const outOfScope = await gate.call(docsReader, 'call_6c', 'tickets__search', { query: 'refund' });
      expect(outOfScope.envelope).toMatchObject({
        ok: false,
        error: { code: 'forbidden', may_have_executed: false },
      });
      expect(outOfScope.headers.get('callgate-status')).toBe('rejected');
    });
    expect(ran).toEqual([]);
  });

  test('H6: a reader granted only docs sees docs, is refused tickets, and gets tickets after a grant', async () => {
    expect(await declaredNames(gate, docsReader)).toEqual(['docs__read_page', 'docs__search']);
    const refused = await gate.call(docsReader, 'call_grant', 'tickets__search', { query: 'sign in' });
    expect(refused.envelope.error?.message).toContain('tools:tickets:search:read');

    const granted = await gate.token(['tools:docs:*', 'tools:tickets:*:read']);
    const { envelope } = await gate.call(granted, 'call_grant', 'tickets__search', { query: 'sign in' });
    expect(envelope).toMatchObject({
      ok: true,
      content: [{ type: 'text', text: 'tickets/T-2: Cannot sign in' }],
    });
  });

  test("H7, H10: the server's own refusal arrives as an output for the model, not as an HTTP error", async () => {
    const ran = await ranDuring(async () => {
      const answer = await gate.call(bothReader, 'call_private', 'tickets__search', {
        query: 'private notes',
      });

      expect(answer.httpStatus).toBe(200);
      expect(answer.item).toMatchObject({ type: 'function_call_output', call_id: 'call_private' });
      expect(answer.envelope.ok).toBe(false);
      expect(answer.envelope.error?.code).toBe('tool_error');
      expect(answer.envelope.content[0]?.text).toBe(
        'Policy of the ticket desk: private tickets are not searched.',
      );
    });
    expect(ran).toMatchObject([{ server: 'tickets', tool: 'search' }]);
  });

  test("H8, H10: two calls keep their own ids, and none is the protocol's request id", async () => {
    const ids = ['call_é/1', '7'];
    const ran = await ranDuring(async () => {
      const [first, second] = await Promise.all([
        gate.call(bothReader, 'call_é/1', 'docs__search', { query: 'refund' }),
        gate.call(bothReader, '7', 'tickets__search', { query: 'refund' }),
      ]);
      expect(first.item.call_id).toBe('call_é/1');
      expect(first.envelope.content[0]?.text).toContain('docs/');
      expect(second.item.call_id).toBe('7');
      expect(second.envelope.content[0]?.text).toContain('tickets/');
    });
    expect(ran).toHaveLength(2);
    for (const { requestId, arguments: input } of ran) {
      expect(ids).not.toContain(requestId);
      expect(input).toEqual({ query: 'refund' });
    }
  });

  test('H8: the same id used again with other arguments or another name is refused, and nothing runs', async () => {
    const again = (name: string, input: unknown) => gate.call(docsReader, 'call_again', name, input);
    expect((await again('docs__search', { query: 'refund' })).envelope.ok).toBe(true);

    const ran = await ranDuring(async () => {
      for (const [name, query] of [
        ['docs__search', ['refund']],
        ['docs__search', 'shipping'],
        ['docs__find', 'refund'],
        ['tickets__search', 'refund'],
      ] as const) {
        expect((await again(name, { query })).envelope.error?.code).toBe('call_id_reused');
      }
    });
    expect(ran).toEqual([]);
  });

  test('H8: the same call once more gets the same output without a second run', async () => {
    const post = () => gate.call(docsReader, 'call_twice', 'docs__search', { query: 'refund' });
    const ran = await ranDuring(async () => {
      const [first, second] = [await post(), await post()];
      expect(second.item).toEqual(first.item);
      expect(first.headers.get('callgate-replayed')).toBeNull();
      expect(second.headers.get('callgate-replayed')).toBe('true');
    });
    expect(ran).toHaveLength(1);
  });

  test('H9: after the process of a server is killed, a fresh one answers', async () => {
    const ask = (id: string) => gate.call(docsReader, id, 'docs__search', { query: 'refund' });
    const [before] = await ranDuring(async () => {
      expect((await ask('call_9')).envelope.ok).toBe(true);
    });
    if (before === undefined) throw new Error('the docs server did not record its execution');

    process.kill(before.pid, 'SIGKILL');
    await gate.logged((line) => line.event === 'server.connection_lost' && line.server === 'docs');

    const [after] = await ranDuring(async () => {
      expect((await ask('call_9_again')).envelope.ok).toBe(true);
    });
    expect(after?.pid).not.toBe(before.pid);
  });

  test('H10: a read grant for tickets does not reach its write tool', async () => {
    const ran = await ranDuring(async () => {
      const { envelope } = await gate.call(bothReader, 'call_write', 'tickets__create_ticket', {
        title: 'New',
      });
      expect(envelope).toMatchObject({ ok: false, error: { code: 'forbidden' } });
    });
    expect(ran).toEqual([]);
  });

  test('H10: an unknown name never falls through to some default server', async () => {
    const ran = await ranDuring(async () => {
      for (const name of [
        'search',
        '__search',
        'docs__',
        'other__search',
        'docs__tickets__search',
        'DOCS__search',
      ]) {
        const { envelope } = await gate.call(bothReader, 'call_unknown', name, { query: 'refund' });
        expect(envelope.error?.code, name).toBe('unknown_tool');
      }
    });
    expect(ran).toEqual([]);
  });
});

describe('the story, where a server of many pages is listed', () => {
  test('H1: pages are read until no cursor is left', async () => {
    const gate = await startCallgate(labConfig());
    const names = await declaredNames(gate, await gate.token(['tools:lab:*']));
    await gate.stop();

    expect(names).toHaveLength(11);
    expect(names).toContain('lab__echo');
    expect(names).toContain('lab__loose');
  });
});

describe('the story, where the tool for tests is let in', () => {
  test('H9: the call that loses its server fails, is not repeated, and the next one reaches a new process', async () => {
    const gate = await startCallgate(withoutExclusions());
    const token = await gate.token(['tools:docs:*']);

    const crash = await gate.call(token, 'call_crash', 'docs__crash_for_test', {});
    expect(crash.httpStatus).toBe(200);
    expect(crash.headers.get('callgate-status')).toBe('unknown');
    expect(crash.envelope).toMatchObject({
      ok: false,
      error: { code: 'connection_lost', may_have_executed: true, retryable: false },
    });

    const next = await gate.call(token, 'call_next', 'docs__search', { query: 'refund' });
    expect(next.envelope.ok).toBe(true);
    const executions = gate.executions();
    expect(executions.map((execution) => execution.tool)).toEqual(['crash_for_test', 'search']);
    expect(executions[1]?.pid).not.toBe(executions[0]?.pid);
    await gate.stop();
  });
});
