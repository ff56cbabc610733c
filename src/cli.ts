#!/usr/bin/env node
import './young-generation.ts';

// Not a static import: those are all loaded before the first line of any of them runs.
const { runCommandLine } = await import('./command-line.ts');
process.exitCode = await runCommandLine(process.argv.slice(2));
