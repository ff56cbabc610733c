import Anthropic from '@anthropic-ai/sdk';
import { createClient } from 'callgate/client';

const anthropic = new Anthropic(); // reads ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL
const callgate = createClient({
  url: process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787',
  token: process.env.CALLGATE_TOKEN ?? '',
});
const format = 'anthropic';

async function ask(question: string, turnsMax = 10): Promise<string> {
  const { tools } = await callgate.declarations({ format });
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: question }];
  for (let turn = 0; turn < turnsMax; turn += 1) {
    const answer = await anthropic.messages.create({
      model: 'claude-sonnet-5',
      max_tokens: 4_096,
      messages,
      tools,
    });
    const { append } = await callgate.turn(answer, { format });
    if (append.length === 0)
      return answer.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
    // All blocks: thinking has to come back with its signature.
    messages.push({ role: 'assistant', content: answer.content }, ...append);
  }
  throw new Error(`no final answer after ${turnsMax} turns`);
}

console.log(await ask(process.argv[2] ?? ''));
