import { type BaseMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai'; // reads OPENAI_API_KEY and OPENAI_BASE_URL
import { createClient, type McpBlock } from 'callgate/client';

const callgate = createClient({
  url: process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787',
  token: process.env.CALLGATE_TOKEN ?? '',
});

function contentBlock(block: McpBlock) {
  if (block.type === 'text') return { type: 'text', text: block.text } as const;
  if (block.type !== 'image') return { type: 'text', text: JSON.stringify(block) } as const;
  return { type: 'image', mimeType: block.mimeType, data: block.data } as const;
}

async function ask(question: string, turnsMax = 10): Promise<string> {
  const { tools } = await callgate.declarations({ format: 'openai-chat' });
  const model = new ChatOpenAI({ model: 'gpt-5', useResponsesApi: true }).bindTools(tools);
  const messages: BaseMessage[] = [new HumanMessage(question)];
  for (let turn = 0; turn < turnsMax; turn += 1) {
    const answer = await model.invoke(messages);
    // Calls whose arguments are no JSON get an output as well.
    const asked = [...(answer.tool_calls ?? []), ...(answer.invalid_tool_calls ?? [])];
    const calls = asked.map(({ id, name, args }) => ({ id, name, arguments: args }));
    const { append } = await callgate.turn(calls, { format: 'mcp' });
    if (append.length === 0) return answer.text;
    messages.push(answer);
    for (const { id, name, result } of append) {
      const status = result.isError ? 'error' : 'success';
      const content = result.content.map(contentBlock);
      messages.push(new ToolMessage({ tool_call_id: id, name, status, content }));
    }
  }
  throw new Error(`no final answer after ${turnsMax} turns`);
}

console.log(await ask(process.argv[2] ?? ''));
