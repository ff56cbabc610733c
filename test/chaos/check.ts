/**
 * The invariants of the call ledger (I1 to I8), checked from what could be seen from outside: what every post was
 * answered, what the tool servers did, what the audit trail says. Pure: no clock, no files.
 */

/** What running a tool twice means. */
export type ToolKind = 'write' | 'idempotent' | 'read';

/** One call as the load generator meant it. Several contents are the same `call_id` posted with other arguments. */
export interface Plan {
  /** Which call: one actor, run, turn and `call_id`. */
  readonly key: string;
  readonly kind: ToolKind;
  /** The canary in the arguments of each content; no two contents of a whole history share one. */
  readonly canaries: readonly string[];
}

/** What became of one post of one call. */
export interface Post {
  readonly key: string;
  /** The canary in the arguments that were posted. */
  readonly canary: string;
  /** The process that was asked: another one after each restart. */
  readonly process: string;
  readonly startMs: number;
  readonly endMs: number;
  /** `refused` is a problem of HTTP, `broken` a connection that ended without an answer. */
  readonly kind: 'answered' | 'waiting' | 'refused' | 'broken';
  readonly httpStatus?: number | undefined;
  readonly id?: string | undefined;
  readonly status?: string | undefined;
  readonly code?: string | undefined;
  readonly mayHaveExecuted?: boolean | undefined;
  /** The output as it was rendered; undefined where the answer gives the state alone. */
  readonly output?: string | undefined;
  readonly isReplayed?: boolean | undefined;
  /** False where the answer says that a repeat will not know it. */
  readonly isRecorded?: boolean | undefined;
  /** Every canary that stands anywhere in the answer. */
  readonly canariesSeen?: readonly string[] | undefined;
}

/** One effect, as its tool server wrote it down before it answered. */
export interface Effect {
  readonly canary: string;
  /** callgate's id of the call, as the server was told it. */
  readonly id: string;
  /** The text that the server answers; unique to this effect. */
  readonly text: string;
  /** The callgate process that the server belongs to. */
  readonly process: string;
  readonly pid: number;
  readonly atMs: number;
}

/** A line of the audit trail. */
export interface AuditLine {
  readonly process: string;
  readonly event: string;
  readonly id: string;
  readonly attempt?: number | undefined;
  readonly atMs: number;
}

/** All that was seen. */
export interface History {
  readonly plans: readonly Plan[];
  readonly posts: readonly Post[];
  readonly effects: readonly Effect[];
  readonly audit: readonly AuditLine[];
  /** How long a post may take at most, waiting included. */
  readonly postMsMax: number;
}

export type Invariant = 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'I7' | 'I8';

/** An invariant that does not hold, and what shows it. */
export interface Violation {
  readonly invariant: Invariant;
  readonly key: string;
  readonly what: string;
  readonly evidence: readonly (Post | Effect | AuditLine)[];
}

/** What the check found, and what it looked at. */
export interface Verdict {
  readonly violations: readonly Violation[];
  readonly calls: number;
  readonly posts: number;
  readonly effects: number;
  readonly answers: Readonly<Record<string, number>>;
  /** Effects whose admission line was still in the memory of a process that was killed. */
  readonly admissionsLost: number;
}

/** The line of the audit trail that an attempt leaves before it is sent. */
export const admissionEvent = 'call.admitted';

const executedStates: ReadonlySet<string | undefined> = new Set(['succeeded', 'failed']);
const untouchedStates: ReadonlySet<string | undefined> = new Set(['not_sent', 'rejected']);

/** Everything that belongs to one call, in the order of time. */
interface Story {
  readonly plan: Plan;
  readonly posts: readonly Post[];
  /** Posts that were told the state of the call, not the reuse of its id. */
  readonly told: readonly Post[];
  readonly effects: readonly Effect[];
}

type Complain = (
  invariant: Invariant,
  key: string,
  what: string,
  evidence: readonly (Post | Effect | AuditLine)[],
) => void;

/** Checks a whole history. */
export function check(history: History): Verdict {
  const violations: Violation[] = [];
  const complain: Complain = (invariant, key, what, evidence) =>
    void violations.push({ invariant, key, what, evidence });

  const stories = storiesOf(history, complain);
  for (const story of stories.values()) {
    checkEffects(story, complain);
    checkAnswers(story, complain);
    checkAgreement(story, complain);
    checkEnd(story, history.postMsMax, complain);
    checkCanaries(story, complain);
  }
  const admissionsLost = checkAudit(history, stories, complain);
  return {
    violations,
    calls: history.plans.length,
    posts: history.posts.length,
    effects: history.effects.length,
    answers: countAnswers(history.posts),
    admissionsLost,
  };
}

function storiesOf({ plans, posts, effects }: History, complain: Complain): ReadonlyMap<string, Story> {
  const stories = new Map<string, Story & { posts: Post[]; told: Post[]; effects: Effect[] }>();
  const keyOf = new Map<string, string>();
  for (const plan of plans) {
    stories.set(plan.key, { plan, posts: [], told: [], effects: [] });
    for (const canary of plan.canaries) keyOf.set(canary, plan.key);
  }
  for (const post of posts) {
    const story = stories.get(post.key);
    story?.posts.push(post);
    if (post.kind === 'answered' && isAboutTheCall(post)) story?.told.push(post);
  }
  for (const effect of effects) {
    const story = stories.get(keyOf.get(effect.canary) ?? '');
    if (story === undefined) complain('I1', '', 'an effect that no call asked for', [effect]);
    else story.effects.push(effect);
  }
  for (const story of stories.values()) story.told.sort((a, b) => a.endMs - b.endMs);
  return stories;
}

/** Whether an answer tells the state of the call, or only why that is not told or cannot be read. */
const isAboutTheCall = ({ code }: Post): boolean =>
  code !== 'call_id_reused' &&
  code !== 'ledger_unavailable' &&
  code !== 'forbidden' &&
  code !== 'unknown_tool';

/** I1, and with it I4: an unknown call has had no effect or one. */
function checkEffects({ plan, effects }: Story, complain: Complain): void {
  if (plan.kind === 'write' && effects.length > 1) {
    complain('I1', plan.key, `${effects.length} effects of a tool classed write`, effects);
  }
}

/** I2 and I3: what an answer says about the effect is so. */
function checkAnswers({ plan, told, posts, effects }: Story, complain: Complain): void {
  for (const post of told) {
    if (post.status === 'succeeded' && post.code !== 'call_expired') {
      const mine = effects.filter(({ canary }) => canary === post.canary);
      if (mine.length === 0) complain('I2', plan.key, 'succeeded without an effect', [post]);
      else if (post.output !== undefined && !mine.some(({ text }) => post.output?.includes(text))) {
        complain('I2', plan.key, 'the output is not what the server answered', [post, ...mine]);
      }
    }
  }
  // Of contents that were never told anything but "not run", and of calls that ended as such, nothing has run.
  for (const canary of plan.canaries) {
    const mine = posts.filter((post) => post.canary === canary);
    const wasRunPerhaps = mine.some(({ kind, status }) => kind !== 'refused' && !untouchedStates.has(status));
    const effect = effects.filter((each) => each.canary === canary);
    if (!wasRunPerhaps && effect.length > 0) {
      complain('I3', plan.key, 'an effect of a call that was never told to have been sent', [
        ...mine,
        ...effect,
      ]);
    }
  }
  const last = told.at(-1);
  if (last === undefined || effects.length === 0 || plan.kind !== 'write') return;
  const isLast = posts.every((post) => post === last || post.endMs <= last.startMs);
  if (isLast && untouchedStates.has(last.status)) {
    complain('I3', plan.key, `${last.status} was the last word on a call that had an effect`, [
      last,
      ...effects,
    ]);
  }
  const denied = told.find(({ status, mayHaveExecuted }) => status === 'failed' && mayHaveExecuted === false);
  if (denied !== undefined) {
    complain('I3', plan.key, 'told to have had no effect, and had one', [denied, ...effects]);
  }
}

/** I5: one call, one answer; and one id. */
function checkAgreement({ plan, told }: Story, complain: Complain): void {
  const dropped = told.find(({ code }) => code === 'call_expired');
  if (dropped !== undefined && plan.kind !== 'read') {
    complain('I5', plan.key, 'a result was dropped before its time', told);
    return;
  }
  for (const [index, later] of told.entries()) {
    for (const earlier of told.slice(0, index)) {
      const what = disagreement(plan, earlier, later);
      if (what !== undefined) {
        complain('I5', plan.key, what, [earlier, later]);
        return;
      }
    }
  }
  if (plan.kind !== 'write') return;
  const claimed = told.filter(({ status }) => executedStates.has(status) || status === 'unknown');
  const stray = claimed.find(({ id }) => id !== undefined && id !== claimed[0]?.id);
  if (claimed[0]?.id !== undefined && stray !== undefined) {
    complain('I5', plan.key, 'two ids for one call', [claimed[0], stray]);
  }
}

function disagreement({ kind }: Plan, earlier: Post, later: Post): string | undefined {
  // Nobody waits for the record of a read: it may be lost, and the read runs again.
  if (kind === 'read') return undefined;
  if (earlier.canary !== later.canary && !untouchedStates.has(earlier.status)) {
    return executedStates.has(later.status) ? 'two contents of one call were both run' : undefined;
  }
  // What could not be written down was unknown to the others, as its caller was told; what may be repeated was.
  if (kind === 'idempotent' && (earlier.isRecorded === false || later.isRecorded === false)) return undefined;
  if (executedStates.has(earlier.status) && executedStates.has(later.status)) {
    return isSameAnswer(earlier, later) ? undefined : 'two different ends of one call';
  }
  const isAfter = earlier.endMs <= later.startMs;
  if (!isAfter) return undefined;
  if (executedStates.has(earlier.status)) {
    const isForgotten = earlier.isRecorded === false && later.status === 'unknown';
    return isForgotten ? undefined : `${earlier.status} became ${later.status}`;
  }
  if (earlier.status !== 'unknown' || kind === 'idempotent') return undefined;
  if (untouchedStates.has(later.status)) return `unknown became ${later.status}`;
  const isOneWord = later.status !== 'unknown' || isSameAnswer(earlier, later);
  return isOneWord || earlier.isRecorded === false || later.isRecorded === false
    ? undefined
    : 'two different words on one unknown call';
}

const isSameAnswer = (a: Post, b: Post): boolean =>
  a.status === b.status &&
  a.code === b.code &&
  (a.output === undefined || b.output === undefined || a.output === b.output);

/** I6: every call comes to an end, and nobody waits longer than was promised. */
function checkEnd({ plan, posts }: Story, postMsMax: number, complain: Complain): void {
  // Only a post that was refused was certainly not taken.
  const taken = posts.filter(({ kind }) => kind !== 'refused').sort((a, b) => a.endMs - b.endMs);
  const last = taken.findLast(({ kind }) => kind !== 'broken') ?? taken.at(-1);
  if (last !== undefined && last.kind !== 'answered') {
    complain('I6', plan.key, 'a call without an end', [last]);
  }
  const slow = posts.find(({ startMs, endMs }) => endMs - startMs > postMsMax);
  if (slow !== undefined) complain('I6', plan.key, `a post took ${slow.endMs - slow.startMs} ms`, [slow]);
}

/** I7: nothing of one call stands in the answer to another, nor of one content in that to another. */
function checkCanaries({ plan, posts }: Story, complain: Complain): void {
  for (const post of posts) {
    const foreign = post.canariesSeen?.filter((canary) => canary !== post.canary) ?? [];
    if (foreign.length > 0) complain('I7', plan.key, `the answer holds ${foreign.join(', ')}`, [post]);
  }
}

/**
 * I8: one admission line for each attempt. Lines are written in order and in batches, so the last batch of a killed
 * process is lost; what came before the last line that was written must be there.
 */
function checkAudit(
  { audit, effects }: History,
  stories: ReadonlyMap<string, Story>,
  complain: Complain,
): number {
  const admitted = new Map<string, AuditLine>();
  const admittedIds = new Set<string>();
  const lastMs = new Map<string, number>();
  for (const line of audit) {
    lastMs.set(line.process, Math.max(lastMs.get(line.process) ?? 0, line.atMs));
    if (line.event !== admissionEvent) continue;
    const attempt = `${line.id} ${line.attempt}`;
    const twin = admitted.get(attempt);
    if (twin !== undefined) complain('I8', line.id, 'one attempt was admitted twice', [twin, line]);
    admitted.set(attempt, line);
    admittedIds.add(`${line.id} ${line.process}`);
  }

  const writes = new Set<string>();
  for (const { plan } of stories.values()) {
    if (plan.kind !== 'read') for (const canary of plan.canaries) writes.add(canary);
  }
  let lost = 0;
  for (const effect of effects) {
    if (!writes.has(effect.canary) || admittedIds.has(`${effect.id} ${effect.process}`)) continue;
    const wasWritten = effect.atMs < (lastMs.get(effect.process) ?? 0);
    if (wasWritten) complain('I8', effect.id, 'an effect without an admission line', [effect]);
    else lost += 1;
  }
  return lost;
}

function countAnswers(posts: readonly Post[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { kind, httpStatus, status, code, isReplayed } of posts) {
    const what =
      kind === 'answered'
        ? `${status}${code === undefined ? '' : ` (${code})`}${isReplayed === true ? ', replayed' : ''}`
        : kind === 'refused'
          ? `HTTP ${httpStatus}${code === undefined ? '' : ` (${code})`}`
          : kind;
    counts[what] = (counts[what] ?? 0) + 1;
  }
  return Object.fromEntries(Object.entries(counts).sort(([, a], [, b]) => b - a));
}
