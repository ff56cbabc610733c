import { createClient } from 'callgate/client';
import OpenAI from 'openai';

const openai = new OpenAI(); // reads OPENAI_API_KEY and OPENAI_BASE_URL
const callgate = createClient({
  url: process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787',
  token: process.env.CALLGATE_TOKEN ?? '',
});
const format = 'openai-chat';

async function ask(question: string, turnsMax = 10): Promise<string> {
  const { tools } = await callgate.declarations({ format });
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: question }];
  for (let turn = 0; turn < turnsMax; turn += 1) {
    const answer = await openai.chat.completions.create({ model: 'gpt-5', messages, tools });
    const message = answer.choices[0]?.message;
    if (message === undefined) throw new Error('the model gave no answer');
    const { append } = await callgate.turn(answer, { format });
    if (append.length === 0) return message.content ?? '';
    messages.push(message, ...append);
  }
  throw new Error(`no final answer after ${turnsMax} turns`);
}

console.log(await ask(process.argv[2] ?? ''));
