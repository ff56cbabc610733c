import { Agent, run, type Tool, tool } from '@openai/agents'; // reads OPENAI_API_KEY and OPENAI_BASE_URL
import { createClient, type McpBlock } from 'callgate/client';

const callgate = createClient({
  url: process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787',
  token: process.env.CALLGATE_TOKEN ?? '',
});

function output(block: McpBlock) {
  if (block.type === 'text') return { type: 'text', text: block.text } as const;
  if (block.type !== 'image') return { type: 'text', text: JSON.stringify(block) } as const;
  return { type: 'image', image: { data: block.data, mediaType: block.mimeType } } as const;
}

async function agentTools(): Promise<Tool[]> {
  const { tools } = await callgate.declarations({ format: 'openai-chat' }); // as the provider takes them
  return tools.map(({ function: { name, description = '', parameters } }) =>
    tool({
      name,
      description,
      // Looser than the server's own schema, which callgate checks the call against.
      parameters: { ...parameters, required: parameters.required ?? [], additionalProperties: true },
      strict: false,
      execute: async (input, _, details) => {
        const call = { id: details?.toolCall?.callId, name, arguments: input };
        const { append } = await callgate.turn(call, { format: 'mcp' });
        return append.flatMap(({ result }) => result.content.map(output));
      },
    }),
  );
}

const agent = new Agent({ name: 'assistant', model: 'gpt-5', tools: await agentTools() });
console.log((await run(agent, process.argv[2] ?? '', { maxTurns: 10 })).finalOutput);
