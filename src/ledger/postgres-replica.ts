import { hostname } from 'node:os';
import type { Client } from 'pg';
import { LedgerUnavailable } from '../dispatch/ports.ts';
import { Alarm } from './postgres-alarm.ts';
import { type Connections, type LoneConnection, within } from './postgres-connections.ts';
import { isConnectionFailure } from './postgres-errors.ts';
import { checkSchemaVersion, migrate, readSchemaVersion, schemaVersion } from './postgres-schema.ts';
import { cancelChannel, missedCancelsText } from './postgres-statements.ts';

/** How often, and how long. */
export interface PostgresTimings {
  /** From a heartbeat until the others take this replica for dead. */
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  /** Between two looks for calls whose replica is dead. */
  readonly sweepMs: number;
  /** Between two looks for what is past its retention, or over a bound. */
  readonly retentionMs: number;
}

export const defaultTimings: PostgresTimings = {
  leaseMs: 12_000,
  heartbeatMs: 3_000,
  sweepMs: 5_000,
  retentionMs: 30_000,
};

/** A replica takes its own lease for lost earlier than the others do. */
const ownShareOfLease = 0.8;
const answerMaxMs = 3_000;
/** A heartbeat on its way may take so long to end when the replica closes. */
const stopMaxMs = 1_000;
const gapMinMs = 100;
const gapMaxMs = 2_000;
/** Numbers under which this process may still hold calls: one more for each lease that it has lost. */
const numbersMax = 256;

interface Lease {
  readonly number: string;
  /** On this process's monotonic clock. */
  readonly untilMs: number;
}

interface ReplicaOptions {
  readonly connections: Connections;
  readonly timings: PostgresTimings;
  readonly onUsable: () => void;
  readonly onUnusable: (error: unknown) => void;
  readonly onCancelRequested: (id: string) => void;
}

/**
 * This process as the others see it: a numbered row with a lease, kept alive over a connection of its own, which also
 * listens for requests to cancel. Whoever cannot renew the lease in time goes on under a new number.
 */
export class Replica {
  readonly #options: ReplicaOptions;
  readonly #name = `${hostname()}:${process.pid}`;
  #numbers: readonly string[] = [];
  #connection: LoneConnection | undefined;
  #opening: LoneConnection | undefined;
  #lease: Lease | undefined;
  #isClosing = false;
  readonly #alarm = new Alarm();
  #kept: Promise<void> = Promise.resolve();

  constructor(options: ReplicaOptions) {
    this.#options = options;
  }

  /** The number under which calls may be claimed now; undefined while the lease is lost. */
  get number(): string | undefined {
    return this.#lease !== undefined && performance.now() < this.#lease.untilMs
      ? this.#lease.number
      : undefined;
  }

  /** All numbers under which this process may hold calls. */
  get numbers(): readonly string[] {
    return this.#numbers;
  }

  /** Tries once, and from then on again and again. @throws what the first try met */
  async open(): Promise<void> {
    try {
      await this.#beat();
      this.#options.onUsable();
    } catch (error) {
      this.#drop();
      this.#options.onUnusable(error);
      throw error;
    } finally {
      this.#kept = this.#keep();
    }
  }

  /** Finds out at once whether the database can be used. */
  probe(): void {
    this.#alarm.ring();
  }

  /** Ends the heartbeat; the lease goes on until `resign`. */
  async stop(): Promise<void> {
    this.#isClosing = true;
    this.probe();
    const timer = setTimeout(() => {
      this.#opening?.destroy();
      this.#drop();
    }, stopMaxMs);
    await this.#kept;
    clearTimeout(timer);
  }

  /** Gives the lease up, after `stop`. Where that fails, it runs out. */
  async resign(): Promise<void> {
    if (this.#connection === undefined || this.#lease === undefined) return;
    try {
      await within(
        this.#connection.client.query('DELETE FROM callgate.replicas WHERE number = $1', [
          this.#lease.number,
        ]),
        answerMaxMs,
      );
    } finally {
      this.#lease = undefined;
      this.#drop();
    }
  }

  async #keep(): Promise<void> {
    let gapMs = gapMinMs;
    while (!this.#isClosing) {
      await this.#alarm.sleep(this.#connection === undefined ? gapMs : this.#options.timings.heartbeatMs);
      if (this.#isClosing) return;
      try {
        await this.#beat();
        gapMs = gapMinMs;
        this.#options.onUsable();
      } catch (error) {
        this.#drop();
        gapMs = Math.min(2 * gapMs, gapMaxMs);
        this.#options.onUnusable(error);
      }
    }
  }

  async #beat(): Promise<void> {
    const isOld = this.#connection !== undefined;
    try {
      await this.#beatOnce();
    } catch (error) {
      this.#drop();
      // A connection may end for reasons of its own; only a new one tells how the database is.
      if (!isOld || this.#isClosing || !isConnectionFailure(error)) throw error;
      await this.#beatOnce();
    }
  }

  async #beatOnce(): Promise<void> {
    const { client } = this.#connection ?? (await this.#connect());
    const sentMs = performance.now();
    const number = this.number;
    const renewed = number !== undefined && (await this.#renew(client, number, sentMs));
    if (!renewed) await this.#register(client, sentMs);
  }

  async #connect(): Promise<LoneConnection> {
    const { connections, onCancelRequested } = this.#options;
    const connection = await connections.connectAlone('listen');
    const { client } = connection;
    this.#opening = connection;
    try {
      await this.#prepareSchema(client);
      client.on('notification', ({ payload }) => {
        if (payload !== undefined) onCancelRequested(payload);
      });
      await within(client.query(`LISTEN ${cancelChannel}`), answerMaxMs);
      const missed = await within(
        client.query<{ id: string }>(missedCancelsText, [this.#numbers]),
        answerMaxMs,
      );
      for (const { id } of missed.rows) onCancelRequested(id);
    } catch (error) {
      connection.destroy();
      throw error;
    } finally {
      this.#opening = undefined;
    }
    client.once('end', () => {
      if (this.#connection !== connection) return;
      this.#connection = undefined;
      this.probe();
    });
    this.#connection = connection;
    return connection;
  }

  async #prepareSchema(client: Client): Promise<void> {
    const version = await within(readSchemaVersion(client), answerMaxMs);
    checkSchemaVersion(version);
    if (version === schemaVersion) return;
    const migrating = await this.#options.connections.connectAlone('migrate');
    try {
      await migrate(migrating.client);
    } finally {
      migrating.destroy();
    }
  }

  async #renew(client: Client, number: string, sentMs: number): Promise<boolean> {
    const { leaseMs } = this.#options.timings;
    const { rows } = await within(
      client.query<{ version: number }>(
        `UPDATE callgate.replicas SET lease_until = now() + $2 * interval '1 millisecond'
         WHERE number = $1 AND lease_until > now()
         RETURNING (SELECT max(version) FROM callgate.migrations) AS version`,
        [number, leaseMs],
      ),
      answerMaxMs,
    );
    const [row] = rows;
    if (row === undefined) return false;
    checkSchemaVersion(row.version);
    this.#lease = { number, untilMs: sentMs + ownShareOfLease * leaseMs };
    return true;
  }

  async #register(client: Client, sentMs: number): Promise<void> {
    const { leaseMs } = this.#options.timings;
    const { rows } = await within(
      client.query<{ number: string; version: number }>(
        `INSERT INTO callgate.replicas (name, lease_until) VALUES ($1, now() + $2 * interval '1 millisecond')
         RETURNING number, (SELECT max(version) FROM callgate.migrations) AS version`,
        [this.#name, leaseMs],
      ),
      answerMaxMs,
    );
    const [row] = rows;
    if (row === undefined) throw new LedgerUnavailable('the database gave this replica no number');
    checkSchemaVersion(row.version);
    const { number } = row;
    this.#numbers = [number, ...this.#numbers].slice(0, numbersMax);
    this.#lease = { number, untilMs: sentMs + ownShareOfLease * leaseMs };
  }

  #drop(): void {
    const connection = this.#connection;
    this.#connection = undefined;
    connection?.destroy();
  }
}
