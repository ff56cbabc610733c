// How many servers there are: what a call costs with a hundred of them, the memory that each takes in callgate, the start with
// ten, and with fifty of which five are broken.
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { rssMiB } from '../cpu.mjs';
import { interleave } from '../interleave.mjs';
import { echoServer, rawServer } from '../processes.mjs';
import { atMost, number, range, table } from '../report.mjs';
import { ratioOf, spread, spreadOf } from '../statistics.mjs';
import { startCallgate } from '../subjects/callgate.mjs';

const many = 100;
const ten = 10;
const fifty = 50;
const inFlight = 64;
const idleMs = 3000;

const named = (count, value) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`server${index + 1}`, value]));
const startRaw = (folder, count) =>
  startCallgate(folder, { classes: named(count, 'read'), servers: named(count, rawServer()) });

export async function measureServers(folder, { rounds, seconds }) {
  const one = await startRaw(folder, 1);
  const hundred = await startRaw(folder, many);
  const aliases = Object.keys(named(many));
  await untilAllAnswer(hundred, aliases);
  await sleep(idleMs);
  const rss = [one, hundred].map(({ pid }) => rssMiB(pid));
  const subjects = [
    { ...one, name: 'one server' },
    { ...hundred, name: `${many} servers, one of them called` },
    {
      ...hundred,
      name: `${many} servers, all called in turn`,
      load: (shape) => hundred.loadOver(aliases, shape),
    },
  ];
  const samples = await interleave(subjects, { rounds, seconds, inFlight: [inFlight] });
  for (const subject of [one, hundred]) await subject.stop();

  const starts = [];
  for (let round = 0; round < rounds; round += 1) starts.push(await startTen(folder));
  const listenings = [];
  for (let round = 0; round < Math.min(rounds, 3); round += 1) listenings.push(await startFifty(folder));

  const figure = (key) => spread(starts.map((start) => start[key]));
  const perServerMiB = spread([(rss[1] - rss[0]) / (many - 1)]);
  const cpuRatio = ({ name }) => ratioOf(samples, [name, 'one server'], inFlight, 'cpuUsPerCall');
  return {
    title: 'Many servers',
    text: [
      table(
        [`calls, ${inFlight} in flight`, 'CPU us per call', 'calls/s', 'p50 ms', 'p99 ms', 'CPU: ratio'],
        subjects.map((subject) => [
          subject.name,
          range(spreadOf(samples, subject.name, inFlight, 'cpuUsPerCall')),
          range(spreadOf(samples, subject.name, inFlight, 'callsPerS')),
          number(spreadOf(samples, subject.name, inFlight, 'p50Ms').median, 2),
          number(spreadOf(samples, subject.name, inFlight, 'p99Ms').median, 2),
          range(cpuRatio(subject), 2),
        ]),
      ),
      'Calls that are spread over all of them cannot share a write, a read and the waking of a process, as those to one server do.',
      `Resident memory of callgate with nothing to do: ${number(rss[0], 1)} MiB with one server, ${number(rss[1], 1)} MiB with ${many}.`,
      table(
        [`the start with ${ten} servers`, 'ms'],
        [
          ['to the first HTTP answer', range(figure('listeningMs'))],
          ['to the first successful call', range(figure('firstCallMs'))],
          ['until each of them has answered a call', range(figure('allCalledMs'))],
          ['the servers alone, one after another', range(figure('inTurnMs'))],
        ],
      ),
      `With ${fifty} servers, five of them broken, the first HTTP answer came after ${range(spread(listenings.map(({ listeningMs }) => listeningMs)))} ms.`,
    ],
    goals: [
      atMost(`CPU per call with ${many} attached servers, times that with one`, cpuRatio(subjects[1]), 1.6),
      atMost('memory of callgate for each attached server, MiB', perServerMiB, 1),
      atMost(
        `start to the first call with ${ten} servers, times their starts one after another`,
        spread(starts.map(({ firstCallMs, inTurnMs }) => firstCallMs / inTurnMs)),
        0.7,
      ),
      atMost(
        'servers that were connected before callgate listened',
        spread([...starts, ...listenings].map(({ connectedBefore }) => connectedBefore)),
        0,
      ),
      atMost(
        `from the start to the first HTTP answer with ${fifty} servers, five of them broken, ms`,
        spread(listenings.map(({ listeningMs }) => listeningMs)),
        2000,
      ),
    ],
  };
}

/** Starts ten servers as others write them, with the SDK: by callgate, and one after another, half of them before that. */
async function startTen(folder) {
  const before = await startInTurn(ten / 2);
  const callgate = await startCallgate(folder, { classes: named(ten, 'read') });
  const sinceMs = performance.now();
  await untilAllAnswer(callgate, Object.keys(named(ten)));
  const allCalledMs = callgate.start.firstCallMs + performance.now() - sinceMs;
  await callgate.stop();
  const inTurnMs = before + (await startInTurn(ten / 2));
  return { ...callgate.start, allCalledMs, inTurnMs, connectedBefore: connectedBefore(callgate) };
}

/** How long it takes to start so many servers one after another, each until it has answered a call. */
async function startInTurn(count) {
  let ms = 0;
  for (let index = 0; index < count; index += 1) {
    const startedMs = performance.now();
    const client = new Client({ name: 'callgate-bench', version: '1.0.0' });
    await client.connect(new StdioClientTransport(echoServer()));
    await client.callTool({ name: 'echo', arguments: { text: 'started' } });
    ms += performance.now() - startedMs;
    await client.close();
  }
  return ms;
}

async function startFifty(folder) {
  const sh = (script) => ({ command: 'sh', args: ['-c', script] });
  const broken = {
    missing: { command: 'no-such-command-anywhere' },
    dies: sh('exit 3'),
    hangs: sh('while read -r line; do :; done'),
    babbles: sh('while read -r line; do echo listening; done'),
    lost: { url: 'http://127.0.0.1:9/mcp' },
  };
  const good = named(fifty - Object.keys(broken).length, rawServer());
  const servers = { ...good, ...broken };
  const classes = Object.fromEntries(Object.keys(servers).map((alias) => [alias, 'read']));
  const callgate = await startCallgate(folder, { classes, servers });
  await callgate.stop();
  return { ...callgate.start, connectedBefore: connectedBefore(callgate) };
}

async function untilAllAnswer({ post }, aliases) {
  await Promise.all(
    aliases.map(async (alias) => {
      while (!(await post(alias))) await sleep(10);
    }),
  );
}

/** How many servers the log says were connected before callgate listened. */
function connectedBefore({ logFile }) {
  const lines = readFileSync(logFile, 'utf8').split('\n');
  const listening = lines.findIndex((line) => line.includes('"event":"service.listening"'));
  return lines.slice(0, listening).filter((line) => line.includes('"event":"server.connected"')).length;
}
