import { describe, expect, test, vi } from 'vitest';
import { LedgerUnavailable, type StoredToolList, ToolListTooLarge } from '../../../src/dispatch/ports.ts';
import { LoadBudget, ToolListSaving } from '../../../src/ledger/tool-lists.ts';

const list = (alias: string, tools: StoredToolList['tools'] = []): StoredToolList => ({
  alias,
  source: 'digest',
  tools,
  refused: [],
  readAtMs: 1,
});

const row = (text: string) => ({ alias: 'shop', source: 'digest', readAtMs: 1, list: text });

describe('tool lists are saved', () => {
  test('one after another, and the next one also where one fails', async () => {
    const begun: string[] = [];
    const endings: (() => void)[] = [];
    const saving = new ToolListSaving(async ({ alias }) => {
      begun.push(alias);
      await new Promise<void>((resolve) => void endings.push(resolve));
      if (alias === 'first') throw new LedgerUnavailable('no');
    }, 10_000);
    const first = saving.save(list('first'));
    const second = saving.save(list('second'));
    await vi.waitFor(() => expect(endings).toHaveLength(1));
    expect(begun).toEqual(['first']);
    endings[0]?.();
    await expect(first).rejects.toThrow('no');
    await vi.waitFor(() => expect(endings).toHaveLength(2));
    endings[1]?.();
    await second;
    expect(begun).toEqual(['first', 'second']);
  });

  test('within the time they have, which counts from when they came', async () => {
    const lefts: number[] = [];
    const saving = new ToolListSaving(async (_, leftMs) => {
      lefts.push(leftMs);
      await new Promise((resolve) => setTimeout(resolve, leftMs + 5));
    }, 20);
    const [first, second] = await Promise.allSettled([saving.save(list('a')), saving.save(list('b'))]);
    expect(first.status).toBe('fulfilled');
    expect(second).toMatchObject({ status: 'rejected', reason: expect.any(LedgerUnavailable) });
    expect(lefts).toEqual([expect.toSatisfy((ms: number) => ms > 0 && ms <= 20)]);
  });

  test('with a turn of the event loop for others while the text of a long one is made', async () => {
    let turns = 0;
    const counting = setInterval(() => {
      turns += 1;
    }, 0);
    let chars = 0;
    const saving = new ToolListSaving(async ({ list: text }) => {
      chars = text.length;
    }, 10_000);
    const properties = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`p${index}`, {}]));
    const tools = Array.from({ length: 25_000 }, (_, index) => ({
      name: `tool_${index}`,
      inputSchema: { type: 'object', properties },
    }));
    await saving.save(list('shop', tools));
    clearInterval(counting);
    expect(chars).toBeGreaterThan(5_000_000);
    expect(turns).toBeGreaterThan(1);
  });

  test('up to a size; what is larger is not written, and said so', async () => {
    const write = vi.fn(async () => {});
    const saving = new ToolListSaving(write, 10_000);
    // Counted in bytes: each of these characters takes two.
    const description = 'é'.repeat(4_200_000);
    const tooLarge = saving.save(list('shop', [{ name: 'find', description, inputSchema: {} }]));
    await expect(tooLarge).rejects.toBeInstanceOf(ToolListTooLarge);
    expect(write).not.toHaveBeenCalled();
    await saving.save(list('shop'));
    expect(write).toHaveBeenCalledOnce();
  });
});

describe('a load of tool lists ends', () => {
  test('when they are as large together as they may be', () => {
    const budget = new LoadBudget();
    budget.spend(row('x'.repeat(200_000_000)));
    expect(budget.overrun).toBeUndefined();
    budget.spend(row('x'.repeat(100_000_000)));
    expect(budget.overrun).toBe('newer lists of other servers take all the room there is');
  });

  test('when it has taken too long', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const budget = new LoadBudget();
    vi.advanceTimersByTime(2_999);
    expect(budget.overrun).toBeUndefined();
    vi.advanceTimersByTime(2);
    expect(budget.overrun).toBe('it took too long to read the lists before it');
    vi.useRealTimers();
  });
});
