import { GoogleGenAI, type Interactions } from '@google/genai';
import { createClient } from 'callgate/client';

const gemini = new GoogleGenAI({}); // reads GEMINI_API_KEY and GOOGLE_GEMINI_BASE_URL
const callgate = createClient({
  url: process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787',
  token: process.env.CALLGATE_TOKEN ?? '',
});
const format = 'gemini-interactions';

async function ask(question: string, turnsMax = 10): Promise<string> {
  const { tools } = await callgate.declarations({ format });
  let next: Interactions.InteractionCreateParams.CreateModelInteractionParamsNonStreaming = {
    model: 'gemini-3-pro',
    input: question,
    tools,
  };
  for (let turn = 0; turn < turnsMax; turn += 1) {
    const answer = await gemini.interactions.create(next);
    const { append } = await callgate.turn(answer, { format });
    if (append.length === 0) return answer.output_text ?? '';
    // The provider has the conversation, under the name of its last interaction.
    next = { ...next, input: append, previous_interaction_id: answer.id };
  }
  throw new Error(`no final answer after ${turnsMax} turns`);
}

console.log(await ask(process.argv[2] ?? ''));
