import type { Statement } from './postgres-connections.ts';
import { callBytesOf, isBefore, recordColumns } from './postgres-rows.ts';
import { schemaVersion } from './postgres-schema.ts';
import { listedBytesMax } from './row.ts';

// A newer callgate has changed what records mean: this one begins nothing more.
const schemaIsOurs = `NOT EXISTS (SELECT FROM callgate.migrations m WHERE m.version > ${schemaVersion})`;

const leaseIsValid = (number: string): string =>
  `EXISTS (SELECT FROM callgate.replicas r WHERE r.number = ${number}::bigint AND r.lease_until > now())`;

const callInput = `unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
  $9::text[], $10::boolean[], $11::boolean[], $12::double precision[]`;

const callColumns =
  'key, id, actor, fingerprint, run, turn, call_id, name, tool, is_read, is_repeatable, created_at_ms';

const inputColumns = callColumns
  .split(', ')
  .map((column) => `i.${column}`)
  .join(', ');

// The rule of `mayBeTakenOver`, where nobody can come in between.
const mayBeTakenOver = `(
  c.status = 'rejected'
  OR (c.fingerprint = EXCLUDED.fingerprint AND (
    c.status = 'not_sent'
    OR (c.status = 'unknown' AND c.outcome IS NOT NULL AND c.is_repeatable AND EXCLUDED.is_repeatable))))`;

// Actor, run, turn and call_id are what the key stands for, and the id and its time stay with the key.
const takeOver = `fingerprint = EXCLUDED.fingerprint, name = EXCLUDED.name, tool = EXCLUDED.tool,
  is_read = EXCLUDED.is_read, is_repeatable = EXCLUDED.is_repeatable, status = EXCLUDED.status,
  updated_at_ms = EXCLUDED.updated_at_ms, owner = EXCLUDED.owner, outcome = EXCLUDED.outcome,
  shelf = EXCLUDED.shelf, result_bytes = EXCLUDED.result_bytes, is_cancel_requested = false`;

const shelfOf = (isRead: string, status: string): string =>
  `CASE WHEN ${isRead} OR ${status} = 'rejected' THEN 'read' ELSE 'write' END`;

/** `$1`: keys. */
export const findStatement: Statement = {
  name: 'callgate_find',
  text: `SELECT ${recordColumns} FROM callgate.calls c WHERE c.key = ANY($1::text[])`,
};

/** `$1` to `$12`: calls; `$13`: status of each; `$14`: our number. Gives back what was claimed. */
export const claimStatement: Statement = {
  name: 'callgate_claim',
  text: `
    INSERT INTO callgate.calls AS c
      (${callColumns}, actor_hash, updated_at_ms, status, attempt, attempts, owner)
    SELECT ${inputColumns}, hashtextextended(i.actor, 0), i.created_at_ms, i.status, 1, 0, $14::bigint
    FROM ${callInput}, $13::text[]) AS i (${callColumns}, status)
    WHERE ${leaseIsValid('$14')} AND ${schemaIsOurs}
      AND (hashtextextended(i.actor, 0) NOT IN (SELECT f.actor_hash FROM callgate.full_actors f)
        OR EXISTS (SELECT FROM callgate.calls o WHERE o.key = i.key))
    ON CONFLICT (key) DO UPDATE SET ${takeOver}, attempt = c.attempt + 1
    WHERE ${mayBeTakenOver}
    RETURNING c.key, c.id, c.attempt, c.created_at_ms`,
};

/** `$1`: keys; `$2`: attempts; `$3`: our number. */
export const startStatement: Statement = {
  name: 'callgate_start',
  text: `
    UPDATE callgate.calls c SET status = 'started'
    FROM unnest($1::text[], $2::integer[]) AS i (key, attempt)
    WHERE c.key = i.key AND c.attempt = i.attempt AND c.status = 'received' AND c.owner = $3::bigint
      AND ${leaseIsValid('$3')} AND ${schemaIsOurs}
    RETURNING c.key`,
};

/** `$1`: keys; `$2`: attempts; `$3`: status; `$4`: outcomes; `$5`: times sent; `$6`: when. */
export const settleStatement: Statement = {
  name: 'callgate_settle',
  text: `
    UPDATE callgate.calls c SET status = i.status, outcome = i.outcome, attempts = c.attempts + i.sent,
      updated_at_ms = i.at_ms, owner = NULL, shelf = ${shelfOf('c.is_read', 'i.status')},
      result_bytes = octet_length(i.outcome) + ${callBytesOf('c')}
    FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::integer[], $6::double precision[])
      AS i (key, attempt, status, outcome, sent, at_ms)
    WHERE c.key = i.key AND c.attempt = i.attempt
      AND (c.owner IS NOT NULL
        OR (c.status = 'unknown' AND c.outcome IS NOT NULL AND i.status IN ('succeeded', 'failed')))
    RETURNING c.key`,
};

/** `$1`: keys; `$2`: attempts; `$3`: outcomes. The ones that an earlier statement has settled just so. */
export const settledBeforeStatement: Statement = {
  name: 'callgate_settled_before',
  text: `
    SELECT c.key FROM unnest($1::text[], $2::integer[], $3::text[]) AS i (key, attempt, outcome)
    JOIN callgate.calls c ON c.key = i.key AND c.attempt = i.attempt AND c.outcome = i.outcome`,
};

/** `$1` to `$12`: calls; `$13`: status of each; `$14`: outcomes; `$15`: times sent; `$16`: when. */
export const recordStatement: Statement = {
  name: 'callgate_record',
  text: `
    INSERT INTO callgate.calls AS c
      (${callColumns}, actor_hash, updated_at_ms, status, attempt, attempts, outcome, shelf, result_bytes)
    SELECT ${inputColumns}, hashtextextended(i.actor, 0), i.at_ms, i.status, 1, i.sent, i.outcome,
      ${shelfOf('i.is_read', 'i.status')}, octet_length(i.outcome) + ${callBytesOf('i')}
    FROM ${callInput}, $13::text[], $14::text[], $15::integer[], $16::double precision[])
      AS i (${callColumns}, status, outcome, sent, at_ms)
    WHERE ${schemaIsOurs}
    ON CONFLICT (key) DO UPDATE SET ${takeOver},
      attempt = CASE WHEN c.owner IS NULL THEN c.attempt + 1 ELSE c.attempt END,
      attempts = c.attempts + EXCLUDED.attempts
    WHERE (c.owner IS NOT NULL AND c.id = EXCLUDED.id AND c.is_read AND c.fingerprint = EXCLUDED.fingerprint)
      OR ${mayBeTakenOver}`,
};

/** `$1`: our number; `$2`: an actor. Why nothing may be claimed. */
export const obstacleStatement: Statement = {
  name: 'callgate_obstacle',
  text: `
    SELECT ${leaseIsValid('$1')}, ${schemaIsOurs},
      ARRAY(SELECT i.actor FROM unnest($2::text[]) AS i (actor)
        JOIN callgate.full_actors f ON f.actor_hash = hashtextextended(i.actor, 0))`,
};

/** `$1`: actor; `$2`: id. */
export const getStatement: Statement = {
  name: 'callgate_get',
  text: `
    SELECT ${recordColumns} FROM callgate.calls c
    WHERE c.actor_hash = hashtextextended($1, 0) AND c.id = $2 AND c.actor = $1`,
};

/** `$1`: actor; `$2`: older than this id, or null; `$3`: how many records to look at. Where that many end. */
export const listEndStatement: Statement = {
  name: 'callgate_list_end',
  text: `
    SELECT c.id FROM callgate.calls c
    WHERE c.actor_hash = hashtextextended($1, 0) AND ${isBefore}
    ORDER BY c.actor_hash DESC, c.id DESC OFFSET $3::integer - 1 LIMIT 1`,
};

/**
 * `$1`: actor; `$2`: older than this id; `$3` to `$6`: call_id, run, turn, status, or null for any; `$7`: how many;
 * `$8`: no older than this id, or null. Each row says how many there are, of which it gives those that are not too
 * much together, the first in any case.
 */
export const listStatement: Statement = {
  name: 'callgate_list',
  text: `
    SELECT ${recordColumns}, c.found FROM (
      SELECT c.*, count(*) OVER ()::integer AS found, sum(c.result_bytes) OVER (ORDER BY c.id DESC) AS bytes FROM (
        SELECT c.* FROM callgate.calls c
        WHERE c.actor_hash = hashtextextended($1, 0) AND c.actor = $1 AND ${isBefore} AND c.id >= coalesce($8, '')
          AND ($3::text IS NULL OR c.call_id = $3) AND ($4::text IS NULL OR c.run = $4)
          AND ($5::text IS NULL OR c.turn = $5) AND ($6::text IS NULL OR c.status = $6)
        ORDER BY c.actor_hash DESC, c.id DESC LIMIT $7) AS c) AS c
    WHERE c.bytes <= ${listedBytesMax} OR c.bytes = c.result_bytes
    ORDER BY c.id DESC`,
};

/** The channel that all replicas listen on; a message is the id of a call. */
export const cancelChannel = 'callgate_cancel';

/** `$1`: key; `$2`: id. */
export const requestCancelStatement: Statement = {
  name: 'callgate_request_cancel',
  text: `
    WITH asked AS (
      UPDATE callgate.calls SET is_cancel_requested = true
      WHERE key = $1 AND id = $2 AND owner IS NOT NULL RETURNING id)
    SELECT pg_notify('${cancelChannel}', id) FROM asked`,
};

const interrupt = (startedStatus: string, startedOutcome: string): string => `
  status = CASE c.status WHEN 'received' THEN 'not_sent' ELSE ${startedStatus} END,
  outcome = CASE c.status WHEN 'received' THEN $1 ELSE ${startedOutcome} END,
  result_bytes = octet_length(CASE c.status WHEN 'received' THEN $1 ELSE ${startedOutcome} END) + ${callBytesOf('c')},
  owner = NULL, shelf = ${shelfOf('c.is_read', "''")}`;

/**
 * `$1`: outcome of what was not sent; `$2`: of what may have been; `$3`: when; `$4`: how many at most; `$5`: our
 * numbers. What is ours we know more about than a lease tells.
 */
export const sweepStatement: Statement = {
  name: 'callgate_sweep',
  text: `
    UPDATE callgate.calls c SET ${interrupt("'unknown'", '$2')}, updated_at_ms = $3
    WHERE c.key IN (
      SELECT o.key FROM callgate.calls o
      WHERE o.owner IS NOT NULL AND o.owner <> ALL($5::bigint[])
        AND NOT EXISTS (SELECT FROM callgate.replicas r WHERE r.number = o.owner AND r.lease_until > now())
      LIMIT $4 FOR UPDATE SKIP LOCKED)
      AND c.owner IS NOT NULL
    RETURNING c.id`,
};

/** Replicas that are gone, and have left nothing that is still to be ended. */
export const forgetReplicasStatement: Statement = {
  name: 'callgate_forget_replicas',
  text: `
    DELETE FROM callgate.replicas r
    WHERE r.lease_until < now() - interval '1 minute'
      AND NOT EXISTS (SELECT FROM callgate.calls c WHERE c.owner = r.number)`,
};

/** `$1`: our numbers; `$2`: how many at most. */
export const ownCallsStatement: Statement = {
  name: 'callgate_own_calls',
  text: `
    SELECT c.key, c.id, c.attempt, c.updated_at_ms FROM callgate.calls c
    WHERE c.owner IS NOT NULL AND c.owner = ANY($1::bigint[]) LIMIT $2`,
};

/** `$1`, `$2`: outcomes as for the sweep; `$3`: when; `$4`: keys; `$5`: attempts; `$6`: our numbers; `$7`: status. */
export const interruptOwnStatement: Statement = {
  name: 'callgate_interrupt_own',
  text: `
    UPDATE callgate.calls c SET ${interrupt('$7', '$2')}, updated_at_ms = $3
    FROM unnest($4::text[], $5::integer[]) AS i (key, attempt)
    WHERE c.key = i.key AND c.attempt = i.attempt AND c.owner = ANY($6::bigint[])
    RETURNING c.id`,
};

/** `$1`: our numbers. Requests that may have come while nobody listened. */
export const missedCancelsText = `
  SELECT c.id FROM callgate.calls c
  WHERE c.owner IS NOT NULL AND c.owner = ANY($1::bigint[]) AND c.is_cancel_requested`;
