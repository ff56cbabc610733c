import { createClient } from 'callgate/client';
import OpenAI from 'openai';

const openai = new OpenAI(); // reads OPENAI_API_KEY and OPENAI_BASE_URL
const callgate = createClient({
  url: process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787',
  token: process.env.CALLGATE_TOKEN ?? '',
});
const format = 'openai-responses';

async function ask(question: string, turnsMax = 10): Promise<string> {
  const { tools } = await callgate.declarations({ format });
  const input: OpenAI.Responses.ResponseInput = [{ role: 'user', content: question }];
  for (let turn = 0; turn < turnsMax; turn += 1) {
    const answer = await openai.responses.create({ model: 'gpt-5', input, tools });
    const { append } = await callgate.turn(answer, { format });
    if (append.length === 0) return answer.output_text;
    // The whole output: the calls go with the reasoning before them.
    input.push(...(answer.output as OpenAI.Responses.ResponseInput), ...append);
  }
  throw new Error(`no final answer after ${turnsMax} turns`);
}

console.log(await ask(process.argv[2] ?? ''));
