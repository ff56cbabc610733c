import Anthropic from '@anthropic-ai/sdk';
import { BedrockRuntimeClient, ConverseCommand, type Message } from '@aws-sdk/client-bedrock-runtime';
import { type Content, GoogleGenAI } from '@google/genai';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { type Client, createClient, type TurnOptions } from '../../src/client/client.ts';
import { anthropic } from './models/anthropic.ts';
import { bedrock } from './models/bedrock.ts';
import { gemini } from './models/gemini.ts';
import { modelKey, question, withModel } from './support/loop.ts';
import { lastWords, type ModelServer } from './support/model-server.ts';

let callgate: Client;
beforeAll(() => {
  callgate = createClient(inject('callgate'));
});

/** A tool that the back-end has itself. */
const clock = { name: 'clock', description: 'Tells the time.' };
const zone = 'UTC';
const time = `12:00 ${zone}`;
const run = (name: string, input: unknown): string =>
  name === clock.name ? `12:00 ${(input as { zone?: string } | undefined)?.zone}` : 'there is no such tool';
const calls = [
  { name: 'everything__echo', input: { message: 'hello' } },
  { name: 'lab__fail', input: {} },
  { name: clock.name, input: { zone } },
];
const taken = { order: 'sequential', unknown: 'leave' } as const satisfies Partial<TurnOptions<'anthropic'>>;

function expectAnswers(model: ModelServer, words: string | undefined): void {
  expect(model.refusals).toEqual([]);
  expect(model.seen.map(({ text }) => text)).toEqual([
    'Echo: hello',
    expect.stringContaining('quota exceeded'),
    time,
  ]);
  expect(model.seen.map(({ isError }) => isError)).toEqual([false, true, false]);
  expect(words).toBe(lastWords);
}

describe('a back-end with tools of its own puts their results into the one message of all results', () => {
  test('for Anthropic', () =>
    withModel(
      anthropic,
      async (model) => {
        const client = new Anthropic({ apiKey: modelKey, baseURL: model.url });
        const { tools } = await callgate.declarations({ format: 'anthropic' });
        const messages: Anthropic.MessageParam[] = [{ role: 'user', content: question }];
        const request = {
          model: 'claude-sonnet-5',
          max_tokens: 1_024,
          messages,
          tools: [...tools, { ...clock, input_schema: { type: 'object' as const } }],
        };
        const answer = await client.messages.create(request);
        const { append, left } = await callgate.turn(answer, { format: 'anthropic', ...taken });
        expect(left).toMatchObject([{ name: clock.name }]);
        const own = left.map(({ index, call_id, name }): Anthropic.ToolResultBlockParam => {
          const block = answer.content[index];
          const input = block?.type === 'tool_use' ? block.input : undefined;
          return { type: 'tool_result', tool_use_id: call_id, content: run(name, input) };
        });
        messages.push({ role: 'assistant', content: answer.content });
        messages.push({ role: 'user', content: [...(append[0]?.content ?? []), ...own] });
        const [block] = (await client.messages.create(request)).content;
        expectAnswers(model, block?.type === 'text' ? block.text : undefined);
      },
      calls,
    ));

  test.each([
    ['gemini-3-pro', false],
    ['gemini-2.5-flash', true],
  ])('for Gemini, with %s', (name, isOld) =>
    withModel(
      gemini(name, isOld),
      async (model) => {
        const client = new GoogleGenAI({ apiKey: modelKey, httpOptions: { baseUrl: model.url } });
        const { tools } = await callgate.declarations({ format: 'gemini' });
        const contents: Content[] = [{ role: 'user', parts: [{ text: question }] }];
        const config = { tools: [...tools, { functionDeclarations: [clock] }] };
        const answer = await client.models.generateContent({ model: name, contents, config });
        const { append, left } = await callgate.turn(answer, { format: 'gemini', ...taken });
        const content = answer.candidates?.[0]?.content ?? {};
        const own = left.map(({ index, name }) => {
          const { id, args } = content.parts?.[index]?.functionCall ?? {};
          return { functionResponse: { ...(id && { id }), name, response: { output: run(name, args) } } };
        });
        contents.push(content);
        contents.push({ role: 'user', parts: [...(append[0]?.parts ?? []), ...own] });
        const last = await client.models.generateContent({ model: name, contents, config });
        expectAnswers(model, last.text);
      },
      calls,
    ),
  );

  test('for Bedrock', () =>
    withModel(
      bedrock,
      async (model) => {
        const client = new BedrockRuntimeClient({
          region: 'us-east-1',
          endpoint: model.url,
          credentials: { accessKeyId: modelKey, secretAccessKey: 'secret' },
        });
        const { tools } = await callgate.declarations({ format: 'bedrock' });
        const messages: Message[] = [{ role: 'user', content: [{ text: question }] }];
        const toolConfig = {
          tools: [...tools, { toolSpec: { ...clock, inputSchema: { json: { type: 'object' } } } }],
        };
        const send = () => client.send(new ConverseCommand({ modelId: 'nova', messages, toolConfig }));
        const answer = await send();
        const { append, left } = await callgate.turn(answer, { format: 'bedrock', ...taken });
        const own = left.map(({ index, call_id, name }) => {
          const { input } = answer.output?.message?.content?.[index]?.toolUse ?? {};
          return { toolResult: { toolUseId: call_id, content: [{ text: run(name, input) }] } };
        });
        messages.push({ role: 'assistant', content: answer.output?.message?.content });
        messages.push({ role: 'user', content: [...(append[0]?.content ?? []), ...own] });
        expectAnswers(model, (await send()).output?.message?.content?.[0]?.text);
        client.destroy();
      },
      calls,
    ));
});
