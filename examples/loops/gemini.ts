import { type Content, GoogleGenAI } from '@google/genai';
import { createClient } from 'callgate/client';

const gemini = new GoogleGenAI({}); // reads GEMINI_API_KEY and GOOGLE_GEMINI_BASE_URL
const model = process.env.GEMINI_MODEL ?? 'gemini-3-pro';
const callgate = createClient({
  url: process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787',
  token: process.env.CALLGATE_TOKEN ?? '',
});
const format = 'gemini';

async function ask(question: string, turnsMax = 10): Promise<string> {
  const { tools } = await callgate.declarations({ format });
  const contents: Content[] = [{ role: 'user', parts: [{ text: question }] }];
  for (let turn = 0; turn < turnsMax; turn += 1) {
    const answer = await gemini.models.generateContent({ model, contents, config: { tools } });
    const { append } = await callgate.turn(answer, { format });
    if (append.length === 0) return answer.text ?? '';
    // The content as it came: its parts have thought signatures.
    const content = answer.candidates?.[0]?.content;
    if (content === undefined) throw new Error('the model gave no content');
    contents.push(content, ...append);
  }
  throw new Error(`no final answer after ${turnsMax} turns`);
}

console.log(await ask(process.argv[2] ?? ''));
