import { openai } from '@ai-sdk/openai'; // reads OPENAI_API_KEY and OPENAI_BASE_URL
import { generateText, isStepCount, jsonSchema, type ToolSet, tool } from 'ai';
import { createClient, type McpResult } from 'callgate/client';

const callgate = createClient({
  url: process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787',
  token: process.env.CALLGATE_TOKEN ?? '',
});

async function toolSet(): Promise<ToolSet> {
  const { tools } = await callgate.declarations({ format: 'openai-chat' }); // as the provider takes them
  const named = tools.map(({ function: { name, description = '', parameters } }) => {
    const execute = async (input: unknown, { toolCallId: id }: { toolCallId: string }) => {
      const { append } = await callgate.turn({ id, name, arguments: input }, { format: 'mcp' });
      if (append[0] === undefined) throw new Error('the call has no output');
      return append[0].result;
    };
    const toModelOutput = ({ output }: { output: McpResult }) => modelOutput(output);
    return [name, tool({ description, inputSchema: jsonSchema(parameters), execute, toModelOutput })];
  });
  return Object.fromEntries(named);
}

function modelOutput({ content, isError }: McpResult) {
  const value = content.map((block) => {
    if (block.type !== 'image')
      return { type: 'text', text: block.type === 'text' ? block.text : JSON.stringify(block) } as const;
    return { type: 'file', mediaType: block.mimeType, data: { type: 'data', data: block.data } } as const;
  });
  const text = value.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
  return isError ? ({ type: 'error-text', value: text } as const) : ({ type: 'content', value } as const);
}

const [prompt = ''] = process.argv.slice(2);
const stopWhen = isStepCount(10);
console.log((await generateText({ model: openai('gpt-5'), tools: await toolSet(), prompt, stopWhen })).text);
