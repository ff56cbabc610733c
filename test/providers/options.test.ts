import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { type Client, createClient, type DeclarationOptions } from '../../src/client/client.ts';
import { anthropic } from './models/anthropic.ts';
import { openaiResponses } from './models/openai-responses.ts';
import { expectResults, modelKey, question, wanted, withModel } from './support/loop.ts';
import { lastWords, type ModelServer } from './support/model-server.ts';

let callgate: Client;
beforeAll(() => {
  callgate = createClient(inject('callgate'));
});

type Options = Omit<DeclarationOptions<'openai-responses'>, 'format'>;

/** A turn of the Responses API with declarations like these; resolves with its tools. */
async function respond(model: ModelServer, options: Options): Promise<OpenAI.Responses.Tool[]> {
  const client = new OpenAI({ apiKey: modelKey, baseURL: `${model.url}/v1` });
  const format = 'openai-responses';
  const { tools, revision } = await callgate.declarations({ format, ...options });
  const input: OpenAI.Responses.ResponseInput = [{ role: 'user', content: question }];
  const answer = await client.responses.create({ model: 'gpt-5', input, tools });
  const { append } = await callgate.turn(answer, { format, revision });
  input.push(...(answer.output as OpenAI.Responses.ResponseInput), ...append);
  const last = await client.responses.create({ model: 'gpt-5', input, tools });
  expect(model.refusals).toEqual([]);
  expect(last.output_text).toBe(lastWords);
  expectResults(model, { hasFlag: false, image: 'image/png' });
  return tools;
}

describe('the Responses API takes', () => {
  test('strict tools where nothing is lost', () =>
    withModel(openaiResponses, async (model) => {
      const tools = await respond(model, { strict: 'lossless' });
      expect(tools).toContainEqual(expect.objectContaining({ name: 'everything__echo', strict: true }));
    }));

  test.each([
    { option: 'namespaces', options: { namespaces: true }, search: false },
    { option: 'deferred tools', options: { defer: true }, search: true },
  ])('$option, and calls come with their namespace', async ({ options, search }) => {
    const calls = wanted.map(({ name, input }) => {
      const [namespace = '', own = ''] = name.split('__');
      return { namespace, name: own, input };
    });
    const loop = async (model: ModelServer): Promise<void> => {
      const tools = await respond(model, options);
      const names = tools.map((tool) => ('name' in tool ? tool.name : tool.type));
      expect(names).toEqual(['everything', 'lab', ...(search ? ['tool_search'] : [])]);
    };
    await withModel(openaiResponses, loop, calls);
  });
});

test('Anthropic takes deferred tools', () =>
  withModel(anthropic, async (model) => {
    const client = new Anthropic({ apiKey: modelKey, baseURL: model.url });
    const format = 'anthropic';
    const { tools } = await callgate.declarations({ format, defer: true });
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: question }];
    const request = { model: 'claude-sonnet-5', max_tokens: 1_024, messages, tools };
    const answer = await client.messages.create(request);
    const { append } = await callgate.turn(answer, { format });
    messages.push({ role: 'assistant', content: answer.content }, ...append);
    await client.messages.create(request);
    expect(model.refusals).toEqual([]);
    expect(tools[0]).toMatchObject({ name: 'tool_search_tool_regex' });
    expectResults(model, { hasFlag: true, image: 'image/png' });
  }));
