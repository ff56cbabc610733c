// From the start of the process to the first HTTP answer and to the first successful call, with one server.
import { range, table } from '../report.mjs';
import { spread } from '../statistics.mjs';
import { startCallgate } from '../subjects/callgate.mjs';
import { startMcpHub } from '../subjects/mcp-hub.mjs';

export async function measureStart(folder, { rounds }) {
  const starts = new Map([
    [startCallgate, []],
    [startMcpHub, []],
  ]);
  for (let round = 0; round < rounds; round += 1) {
    for (const [start, measured] of starts) {
      const subject = await start(folder);
      measured.push({ name: subject.name, ...subject.start });
      await subject.stop();
    }
  }
  const rows = [...starts.values()].map((measured) => [
    measured[0].name,
    range(spread(measured.map(({ listeningMs }) => listeningMs))),
    range(spread(measured.map(({ firstCallMs }) => firstCallMs))),
  ]);
  return {
    title: 'Start',
    text: [table(['subject', 'ms to the first HTTP answer', 'ms to the first successful call'], rows)],
    goals: [],
  };
}
