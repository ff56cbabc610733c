import { createClient } from 'callgate/client';
import { type Cohere, CohereClientV2 } from 'cohere-ai';

const cohere = new CohereClientV2({
  token: process.env.CO_API_KEY ?? '',
  environment: process.env.CO_API_URL ?? 'https://api.cohere.com',
});
const callgate = createClient({
  url: process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787',
  token: process.env.CALLGATE_TOKEN ?? '',
});
const format = 'cohere';

async function ask(question: string, turnsMax = 10): Promise<string> {
  const { tools } = await callgate.declarations({ format });
  const messages: Cohere.ChatMessageV2[] = [{ role: 'user', content: question }];
  for (let turn = 0; turn < turnsMax; turn += 1) {
    const answer = await cohere.chat({ model: 'command-a-03-2025', messages, tools });
    const { append } = await callgate.turn(answer, { format });
    if (append.length === 0)
      return answer.message.content?.map((item) => (item.type === 'text' ? item.text : '')).join('') ?? '';
    messages.push(answer.message, ...append);
  }
  throw new Error(`no final answer after ${turnsMax} turns`);
}

console.log(await ask(process.argv[2] ?? ''));
