import { BedrockRuntimeClient, ConverseCommand, type Message } from '@aws-sdk/client-bedrock-runtime';
import { createClient } from 'callgate/client';

const bedrock = new BedrockRuntimeClient(); // reads AWS_REGION and the usual credentials
const modelId = 'anthropic.claude-sonnet-5';
const callgate = createClient({
  url: process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787',
  token: process.env.CALLGATE_TOKEN ?? '',
});
const format = 'bedrock';

async function ask(question: string, turnsMax = 10): Promise<string> {
  const { tools } = await callgate.declarations({ format });
  const messages: Message[] = [{ role: 'user', content: [{ text: question }] }];
  for (let turn = 0; turn < turnsMax; turn += 1) {
    const answer = await bedrock.send(new ConverseCommand({ modelId, messages, toolConfig: { tools } }));
    const message = answer.output?.message;
    if (message === undefined) throw new Error('the model gave no answer');
    const { append } = await callgate.turn(answer, { format });
    if (append.length === 0) return message.content?.map(({ text }) => text ?? '').join('') ?? '';
    // All blocks: reasoning has to come back with its signature.
    messages.push(message, ...append);
  }
  throw new Error(`no final answer after ${turnsMax} turns`);
}

console.log(await ask(process.argv[2] ?? ''));
