// Starting the programs that are measured.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const startMsMax = 60_000;

/** How to start the MCP server that every subject calls. */
export const echoServer = ({ tools = 1 } = {}) => ({
  command: process.execPath,
  args: [fileURLToPath(new URL('servers/echo.mjs', import.meta.url))],
  env: { TOOLS: String(tools - 1) },
});

/** How to start the small server without the SDK, in one of its moods. */
export const rawServer = (...mood) => ({
  command: process.execPath,
  args: [fileURLToPath(new URL('servers/raw.mjs', import.meta.url)), ...mood],
});

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * Starts a Node program and sends `request` until it is answered as expected. What it prints goes to a file, as under a
 * service manager. Resolves with the milliseconds from the start to the first answer of any kind and to the first right one.
 */
export async function startProgram({ folder, name, script, args, env, request }) {
  const logFile = path.join(folder, `${name}.log`);
  const log = openSync(logFile, 'w');
  const startedMs = performance.now();
  const child = spawn(process.execPath, [script, ...args], {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ['ignore', log, log],
  });
  const exited = once(child, 'exit');
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);
  const stop = async () => {
    child.kill('SIGTERM');
    await exited;
    process.off('exit', killAtExit);
  };

  let listeningMs;
  while (performance.now() - startedMs < startMsMax && child.exitCode === null) {
    const answer = await send(request).catch(() => undefined);
    if (answer !== undefined) listeningMs ??= performance.now() - startedMs;
    if (answer?.isRight) {
      return {
        pid: child.pid,
        logFile,
        stop,
        start: { listeningMs, firstCallMs: performance.now() - startedMs },
      };
    }
    await sleep(5);
  }
  await stop();
  throw new Error(`${name} did not come up. It printed:\n${readFileSync(logFile, 'utf8').slice(-4000)}`);
}

async function send({ port, method, path, headers, next }) {
  const { body, expected } = next();
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers, body });
  const text = await response.text();
  return { isRight: response.ok && text.includes(expected) };
}
