// Tables, goals and verdicts as Markdown.
import { readFile, writeFile } from 'node:fs/promises';
import os from 'node:os';

const begin = '<!-- bench: begin -->';
const end = '<!-- bench: end -->';

export const number = (value, digits = 0) => value.toFixed(digits);

export const range = ({ min, median, max }, digits = 0) =>
  [min, median, max].map((value) => number(value, digits)).join(' / ');

export function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** A goal on the median of what was measured; `aim` is what we would like to reach beyond it. */
export const atMost = (name, measured, must, aim) => ({
  name,
  measured,
  wanted: aim === undefined ? `at most ${must}` : `at most ${must} (aim ${aim})`,
  isMet: measured.median <= must,
  isAimMet: aim !== undefined && measured.median <= aim,
});

export const atLeast = (name, measured, must, aim) => ({
  name,
  measured,
  wanted: aim === undefined ? `at least ${must}` : `at least ${must} (aim ${aim})`,
  isMet: measured.median >= must,
  isAimMet: aim !== undefined && measured.median >= aim,
});

/** The result of a part that this machine lacks something for. */
export const notMeasured = (title, goalNames, reason) => ({
  title,
  text: [`Not measured: ${reason}.`],
  goals: goalNames.map((name) => ({ name, wanted: '', measured: undefined })),
});

function verdict({ measured, isMet, isAimMet }) {
  if (measured === undefined) return 'NOT MEASURED';
  if (isAimMet) return 'met, aim reached';
  return isMet ? 'met' : 'MISSED';
}

export function report(parts, { rounds, seconds }) {
  const goals = parts.flatMap((part) => part.goals);
  const rows = goals.map((goal) => [
    goal.name,
    goal.wanted,
    goal.measured === undefined ? '' : range(goal.measured, 2),
    verdict(goal),
  ]);
  const machine = `${os.availableParallelism()} cores, ${os.cpus()[0].model.trim()}, Node ${process.versions.node}`;
  return [
    `${new Date().toISOString().slice(0, 10)}, ${machine}. ${rounds} rounds, slices of ${seconds} s.`,
    'Three figures are minimum / median / maximum over the rounds; goals are judged by the median.',
    '### Goals',
    table(['what', 'wanted', 'measured', 'verdict'], rows),
    ...parts.flatMap(({ title, text }) => [`### ${title}`, ...text]),
  ].join('\n\n');
}

/** Puts the report between the two marks of a document. */
export async function writeInto(file, text) {
  const document = await readFile(file, 'utf8');
  const [from, to] = [document.indexOf(begin), document.indexOf(end)];
  if (from < 0 || to < from)
    throw new Error(`${file} has no "${begin}" followed by "${end}" to write between`);
  await writeFile(file, `${document.slice(0, from + begin.length)}\n\n${text}\n\n${document.slice(to)}`);
}
