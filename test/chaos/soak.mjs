// npm run soak -- [--minutes N] [--rate N] [--seed N]
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const file = fileURLToPath(new URL('command.ts', import.meta.url));
const { module } = await runnerImport(file, { configFile: false, logLevel: 'error' });
process.exit(await module.soak(process.argv.slice(2)));
