import OpenAI from 'openai';

const gate = process.env.CALLGATE_URL ?? 'http://127.0.0.1:8787';
const openai = new OpenAI(); // reads OPENAI_API_KEY and OPENAI_BASE_URL

async function callgate<T>(path: string, body?: unknown): Promise<T> {
  const headers = {
    authorization: `Bearer ${process.env.CALLGATE_TOKEN}`,
    'content-type': 'application/json',
  };
  const init = body === undefined ? { headers } : { method: 'POST', headers, body: JSON.stringify(body) };
  const answer = await fetch(`${gate}${path}?format=openai-responses`, init);
  if (!answer.ok) throw new Error(`callgate answered ${answer.status}: ${await answer.text()}`);
  return (await answer.json()) as T;
}

async function run(question: string, turnsMax = 10): Promise<string> {
  const { tools } = await callgate<{ tools: OpenAI.Responses.Tool[] }>('/v1/declarations');
  const input: OpenAI.Responses.ResponseInput = [{ role: 'user', content: question }];
  for (let turn = 0; turn < turnsMax; turn += 1) {
    const answer = await openai.responses.create({ model: 'gpt-5', input, tools });
    const { append } = await callgate<{ append: OpenAI.Responses.ResponseInput }>('/v1/turns', answer);
    if (append.length === 0) return answer.output_text;
    input.push(...(answer.output as OpenAI.Responses.ResponseInput), ...append);
  }
  throw new Error(`no final answer after ${turnsMax} turns`);
}

console.log(await run(process.argv[2] ?? ''));
