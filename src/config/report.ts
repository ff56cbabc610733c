import { basename } from 'node:path';
import type { Finding } from './configuration.ts';
import { isServersKey } from './open-file.ts';
import type { Path, Problem, Source } from './source.ts';

/**
 * Gathers what is wrong while a configuration is read. A problem inside the entry or the settings of one server is a
 * fault of that server alone; any other is a finding, with which the whole configuration is refused.
 */
export class Report {
  readonly #problems: Problem[] = [];
  readonly #findings: Problem[] = [];
  readonly #warnings: Problem[] = [];
  readonly #expected = new Set<string>();
  readonly #switchedOff = new Set<string>();

  /** Something wrong; whose fault it is follows from its place. */
  problem(problem: Problem): void {
    this.#problems.push(problem);
  }

  /** Something wrong that concerns more than one server, wherever it stands. */
  finding(problem: Problem): void {
    this.#findings.push(problem);
  }

  warning(problem: Problem): void {
    this.#warnings.push(problem);
  }

  /** Names a server that faults can belong to. */
  expect(key: string): void {
    this.#expected.add(key);
  }

  /** Names a server whose faults do not matter. */
  switchOff(key: string): void {
    this.#switchedOff.add(key);
  }

  hasFaults(key: string): boolean {
    return this.#problems.some(({ path }) => serverKeyOf(path) === key);
  }

  /** Whether nothing is known to be wrong with a value, inside it or around it. */
  isSound(source: Source, path: Path): boolean {
    return !this.#problems.some(
      (problem) =>
        problem.source === source &&
        Array.from({ length: Math.min(path.length, problem.path.length) }).every(
          (_, index) => path[index] === problem.path[index],
        ),
    );
  }

  /** The reason why a server cannot be used, with the places to look at. */
  reasonOf(key: string): string {
    return this.#problems
      .filter(({ path }) => serverKeyOf(path) === key)
      .map((problem) => `${problem.message} (${this.placeText(problem)})`)
      .join('; ');
  }

  /** Everything for which the configuration is refused; in that case with the faults of servers, for one look. */
  findings(): readonly Finding[] {
    const isOfServer = ({ path }: Problem): boolean => this.#expected.has(serverKeyOf(path) ?? '');
    const isDropped = ({ path }: Problem): boolean => this.#switchedOff.has(serverKeyOf(path) ?? '');
    const problems = this.#problems.filter((problem) => !isDropped(problem));
    const fatal = [...this.#findings, ...problems.filter((problem) => !isOfServer(problem))];
    if (fatal.length === 0) return [];
    const ofServers = problems.filter(isOfServer).map((problem) => ({
      ...problem,
      message: `server "${serverKeyOf(problem.path)}": ${problem.message}`,
    }));
    return [...fatal, ...ofServers].map(({ source, path, spot, message }) => ({
      file: source.file,
      ...source.placeOf(path, spot),
      message,
    }));
  }

  warnings(): readonly string[] {
    return this.#warnings.map((problem) => `${this.placeText(problem)}: ${problem.message}`);
  }

  placeText({ source, path, spot }: Omit<Problem, 'message'>): string {
    const { line, column } = source.placeOf(path, spot);
    return `${basename(source.file)}:${line}:${column}`;
  }
}

/** The server whose own place a path leads into. */
function serverKeyOf([first, second, third]: Path): string | undefined {
  if (isServersKey(first) && second !== undefined) return String(second);
  return first === 'callgate' && second === 'servers' && third !== undefined ? String(third) : undefined;
}
