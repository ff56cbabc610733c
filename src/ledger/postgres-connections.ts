import { Socket } from 'node:net';
import { Client, type ClientConfig, Pool, type PoolClient, type QueryResult } from 'pg';
import { DatabaseSilent } from './postgres-errors.ts';

/** A prepared statement; the name is its own on every connection. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** A connection with one owner, who ends it. */
export interface LoneConnection {
  readonly client: Client;
  /** Ends it whatever state it is in. */
  readonly destroy: () => void;
}

const connectMaxMs = 3_000;
const poolConnectionsMax = 10;
/** Below the patience of whoever waits for a statement, so that nothing runs on that nobody waits for. */
const statementMaxMs = 4_000;
const migrationMaxMs = 120_000;

// The tables grow from nothing to millions of rows faster than statistics do, so no plan may read a whole table.
const session = `
  SET statement_timeout = ${statementMaxMs};
  SET idle_in_transaction_session_timeout = ${statementMaxMs};
  SET default_transaction_isolation = 'read committed';
  SET enable_seqscan = off;
  SET enable_hashjoin = off;
  SET enable_mergejoin = off;
  SET plan_cache_mode = force_generic_plan;
  SET jit = off;
  SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
`;

/** The way to one database. No wait in here is longer than it says, and no failure is told but by a rejection. */
export class Connections {
  readonly #url: string;
  readonly #sockets = new Set<Socket>();
  #pool: Pool;

  /** @throws where the URL cannot be read */
  constructor(url: string) {
    this.#url = url;
    // The pool reads its URL only when it connects.
    new Client({ connectionString: url });
    this.#pool = this.#newPool();
  }

  /** Runs one statement. After a silence of `maxMs` all connections are given up: none of them can be trusted. */
  async query<Row extends readonly unknown[]>(
    { name, text }: Statement,
    values: readonly unknown[],
    maxMs: number,
  ): Promise<QueryResult<Row & unknown[]>> {
    return this.#bounded(
      this.#pool.query<Row & unknown[]>({ name, text, values: [...values], rowMode: 'array' }),
      maxMs,
    );
  }

  /** Runs several statements on one connection. `maxMs` bounds all of them together. */
  async withClient<Result>(maxMs: number, run: (client: PoolClient) => Promise<Result>): Promise<Result> {
    const pool = this.#pool;
    const whole = async (): Promise<Result> => {
      const client = await pool.connect();
      client.on('error', ignore);
      try {
        const result = await run(client);
        client.release();
        return result;
      } catch (error) {
        // Whatever it holds, a lock or a transaction, ends with it.
        client.release(true);
        throw error;
      } finally {
        client.off('error', ignore);
      }
    };
    return this.#bounded(whole(), maxMs);
  }

  /** Opens a connection that is not shared. */
  async connectAlone(use: 'listen' | 'migrate'): Promise<LoneConnection> {
    const socket = new Socket();
    const client = new Client({
      ...this.#config(() => socket),
      statement_timeout: use === 'migrate' ? migrationMaxMs : statementMaxMs,
    });
    client.on('error', ignore);
    const connection = { client, destroy: () => void socket.destroy() };
    try {
      await within(client.connect(), connectMaxMs);
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  /** Ends all shared connections at once; later statements open new ones. */
  abandon(): void {
    const { sockets, pool } = { sockets: [...this.#sockets], pool: this.#pool };
    this.#sockets.clear();
    this.#pool = this.#newPool();
    for (const socket of sockets) socket.destroy();
    pool.end().catch(ignore);
  }

  /** Ends the shared connections in an orderly way, or by force after `maxMs`. */
  async close(maxMs: number): Promise<void> {
    await within(this.#pool.end(), maxMs).catch(ignore);
    for (const socket of this.#sockets) socket.destroy();
  }

  #newPool(): Pool {
    const pool = new Pool({
      ...this.#config(() => this.#newSocket()),
      max: poolConnectionsMax,
      idleTimeoutMillis: 60_000,
      // The pool waits for what this gives back, whatever its types say.
      onConnect: (client): unknown => client.query(session),
    });
    // An idle connection that breaks has no statement to fail; the pool opens another when it is needed.
    pool.on('error', ignore);
    return pool;
  }

  #config(stream: () => Socket): ClientConfig {
    return {
      connectionString: this.#url,
      application_name: 'callgate',
      connectionTimeoutMillis: connectMaxMs,
      keepAlive: true,
      stream,
    };
  }

  #newSocket(): Socket {
    const socket = new Socket();
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    return socket;
  }

  async #bounded<Result>(promise: Promise<Result>, maxMs: number): Promise<Result> {
    try {
      return await within(promise, maxMs);
    } catch (error) {
      if (error instanceof DatabaseSilent) this.abandon();
      throw error;
    }
  }
}

/** What a promise gives, if it gives that in time. @throws DatabaseSilent */
export async function within<Result>(promise: Promise<Result>, maxMs: number): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DatabaseSilent(`no answer within ${Math.round(maxMs)} ms`)), maxMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

const ignore = (): void => {};
