// A process that holds children as callgate does, for tests that kill it. Its one argument is a JSON list of
// [command, ...args]; it prints the pids of the children once all run. When its input ends it ends them and nothing
// more, so that it comes to its own end only if nothing else keeps it alive.
import { spawnGroup } from '../../dist/upstream/stdio/child-process.js';

const log = { info() {}, warn: (event, fields) => console.error(event, fields), error: console.error };
const groups = [];
for (const [command, ...args] of JSON.parse(process.argv[2])) {
  const group = await spawnGroup({ command, args, env: { PATH: process.env.PATH }, cwd: process.cwd() }, log);
  for (const stream of [group.child.stdout, group.child.stderr]) stream.resume();
  groups.push(group);
}
process.stdout.write(`${JSON.stringify(groups.map(({ pid }) => pid))}\n`);
for await (const _ of process.stdin);
for (const group of groups) {
  await group.leave(500);
  await group.end(500);
}
