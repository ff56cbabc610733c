import { Mistral } from '@mistralai/mistralai';
import type { ChatCompletionRequest } from '@mistralai/mistralai/models/components';
import { createClient } from 'callgate/client';

const mistral = new Mistral({
  apiKey: process.env.MISTRAL_API_KEY ?? '',
  serverURL: process.env.MISTRAL_URL ?? 'https://api.mistral.ai',
});
const callgate = createClient({
  url: process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787',
  token: process.env.CALLGATE_TOKEN ?? '',
});
const format = 'mistral';

async function ask(question: string, turnsMax = 10): Promise<string> {
  const { tools } = await callgate.declarations({ format });
  const messages: ChatCompletionRequest['messages'] = [{ role: 'user', content: question }];
  for (let turn = 0; turn < turnsMax; turn += 1) {
    const answer = await mistral.chat.complete({ model: 'mistral-large-latest', messages, tools });
    const message = answer.choices[0]?.message;
    if (message === undefined) throw new Error('the model gave no answer');
    const { append } = await callgate.turn(answer, { format });
    if (append.length === 0) return typeof message.content === 'string' ? message.content : '';
    messages.push({ ...message, role: 'assistant' }, ...append);
  }
  throw new Error(`no final answer after ${turnsMax} turns`);
}

console.log(await ask(process.argv[2] ?? ''));
