import type { Configuration } from '../config/configuration.ts';
import type { EventLog } from '../core/events.ts';
import { createRedactor } from '../core/redact.ts';
import { openLiveRegistry } from '../live-registry.ts';
import type { Registry } from '../tools/registry.ts';
import type { ServerStatus } from '../upstream/settings.ts';
import { killAllGroups } from '../upstream/stdio/child-process.ts';
import { loadForCommand } from './configuration.ts';
import { type CommandOptions, exitConfiguration, UsageError } from './options.ts';

const exitFindings = 1;
const exitInterrupted = 130;

/** The report says all that the log would. */
const silence: EventLog = { info: () => {}, warn: () => {}, error: () => {} };

/** `callgate check`: validates the file, connects to every server, prints what would be declared and what would not. */
export async function check(options: CommandOptions): Promise<number> {
  if (options.config === undefined) throw new UsageError('check needs --config FILE');
  const configuration = await loadForCommand(options.config);
  if (configuration === undefined) return exitConfiguration;
  process.on('exit', killAllGroups);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => process.exit(exitInterrupted));
  const redact = createRedactor(configuration.secrets);
  const { upstreams, current } = openLiveRegistry(configuration, [], {
    log: silence,
    redact,
    store: undefined,
  });
  void upstreams.start();
  await upstreams.firstListings;
  const report = describe(configuration, upstreams.statuses(), current());
  await upstreams.stop();
  process.stdout.write(redact(report.text));
  return report.findings === 0 ? 0 : exitFindings;
}

function describe(
  configuration: Configuration,
  statuses: readonly ServerStatus[],
  registry: Registry,
): { text: string; findings: number } {
  const lines: string[] = [];
  let findings = 0;
  for (const status of statuses) {
    const own = registry.bindings.filter(({ alias }) => alias === status.alias);
    const withheld = registry.withheld.get(status.alias) ?? [];
    const trouble =
      status.state === 'ready' ? [] : [`${status.stage ?? ''}: ${status.lastError ?? 'no tool list'}`];
    findings += withheld.length + trouble.length;
    lines.push(
      `${status.alias}: ${status.state}${own.length > 0 ? `, ${own.length} ${own.length === 1 ? 'tool' : 'tools'}` : ''}`,
    );
    for (const text of trouble) lines.push(`  finding: ${text}`);
    for (const line of status.stderr ?? []) lines.push(`    stderr: ${line}`);
    for (const { name, target } of own) lines.push(`  ${name} (${target.class})`);
    for (const { tool, reason } of withheld)
      lines.push(`  finding: ${JSON.stringify(tool)} is withheld: ${reason}`);
  }
  for (const warning of configuration.warnings) lines.push(`note: ${warning}`);
  lines.push(findings === 0 ? 'no findings' : `${findings} ${findings === 1 ? 'finding' : 'findings'}`, '');
  return { text: lines.join('\n'), findings };
}
