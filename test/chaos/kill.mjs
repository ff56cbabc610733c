// npm run chaos -- [--rounds N] [--seed N] [--replicas] [--calls N] [--servers] [--minutes N]
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const file = fileURLToPath(new URL('command.ts', import.meta.url));
const { module } = await runnerImport(file, { configFile: false, logLevel: 'error' });
process.exit(await module.chaos(process.argv.slice(2)));
