import { Socket } from 'node:net';
import { Client, type ClientBase, type ClientConfig, Pool, type PoolClient } from 'pg';
import { DatabaseSilent, isConflict } from './postgres-errors.ts';
import { Gate } from './postgres-gate.ts';

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

/** What connections are shared for, and how far. */
export interface PoolOptions {
  readonly connectionsMax: number;
  /** Who may wait for one of them. */
  readonly waitingMax: number;
  /** What whoever gets none is told. */
  readonly refusal: string;
  /** The server ends a statement after so long. */
  readonly statementMaxMs: number;
  /** What is given up after a silence: the connection that was silent, or every one that is shared. */
  readonly givesUp: 'one' | 'all';
}

const connectMaxMs = 3_000;
const waitMaxMs = 2_000;
/** Whoever waits for a statement waits longer than it may run, so that nothing runs on that nobody waits for. */
const patienceMs = 500;
const loneStatementMaxMs = 4_000;
const migrationMaxMs = 120_000;

// The tables grow from nothing to millions of rows faster than statistics do, so no plan may read a whole table.
const session = (statementMaxMs: number): string => `
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

const configOf = (url: string, stream: () => Socket): ClientConfig => ({
  connectionString: url,
  application_name: 'callgate',
  connectionTimeoutMillis: connectMaxMs,
  keepAlive: true,
  stream,
});

/** The way to one database. No wait in here is longer than it says, and no failure is told but by a rejection. */
export class Connections {
  readonly #url: string;
  readonly #pools: ConnectionPool[] = [];

  /** @throws where the URL cannot be read */
  constructor(url: string) {
    this.#url = url;
    // A pool reads its URL only when it connects.
    new Client({ connectionString: url });
  }

  /** Connections to share; none is opened before it is needed. */
  pool(options: PoolOptions): ConnectionPool {
    const pool = new ConnectionPool(this.#url, options);
    this.#pools.push(pool);
    return pool;
  }

  /** Opens a connection that is not shared. */
  async connectAlone(use: 'listen' | 'migrate'): Promise<LoneConnection> {
    const socket = new Socket();
    const client = new Client({
      ...configOf(this.#url, () => socket),
      statement_timeout: use === 'migrate' ? migrationMaxMs : loneStatementMaxMs,
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

  /** Ends all shared connections in an orderly way, or by force after `maxMs`. */
  async close(maxMs: number): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.close(maxMs)));
  }
}

/** A few connections for one purpose, so that no other purpose takes them. */
export class ConnectionPool {
  readonly #url: string;
  readonly #options: PoolOptions;
  readonly #gate: Gate;
  readonly #sockets = new Set<Socket>();
  #pool: Pool;

  constructor(url: string, options: PoolOptions) {
    this.#url = url;
    this.#options = options;
    const { connectionsMax: insideMax, waitingMax, refusal } = options;
    this.#gate = new Gate({ insideMax, waitingMax, waitMaxMs, refusal });
    this.#pool = this.#newPool();
  }

  /** Runs one statement; once more where it met another replica at the same records. */
  async query<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly unknown[],
    maxMs?: number,
  ): Promise<readonly Row[]> {
    const untilMs = performance.now() + (maxMs ?? this.#answerMaxMs());
    const query = (): Promise<readonly Row[]> =>
      this.withClient((client) => ask<Row>(client, statement, values), untilMs - performance.now());
    try {
      return await query();
    } catch (error) {
      if (isConflict(error)) return query();
      throw error;
    }
  }

  /** Runs several statements on one connection. `maxMs` bounds all of them together. */
  async withClient<Result>(
    run: (client: PoolClient) => Promise<Result>,
    maxMs = this.#answerMaxMs(),
  ): Promise<Result> {
    await this.#gate.enter();
    const using = new Use(this.#pool);
    try {
      return await within(using.run(run), maxMs);
    } catch (error) {
      if (error instanceof DatabaseSilent) {
        if (this.#options.givesUp === 'all') this.#abandon();
        else using.destroy();
      }
      throw error;
    } finally {
      this.#gate.leave();
    }
  }

  /** Ends the connections in an orderly way, or by force after `maxMs`. */
  async close(maxMs: number): Promise<void> {
    await within(this.#pool.end(), maxMs).catch(ignore);
    for (const socket of this.#sockets) socket.destroy();
  }

  #answerMaxMs(): number {
    return this.#options.statementMaxMs + patienceMs;
  }

  // Where one connection is silent none can be trusted; later statements open new ones.
  #abandon(): void {
    const { sockets, pool } = { sockets: [...this.#sockets], pool: this.#pool };
    this.#sockets.clear();
    this.#pool = this.#newPool();
    for (const socket of sockets) socket.destroy();
    pool.end().catch(ignore);
  }

  #newPool(): Pool {
    const { connectionsMax, statementMaxMs } = this.#options;
    const pool = new Pool({
      ...configOf(this.#url, () => this.#newSocket()),
      max: connectionsMax,
      idleTimeoutMillis: 60_000,
      // The pool waits for what this gives back, whatever its types say.
      onConnect: (client): unknown => within(client.query(session(statementMaxMs)), connectMaxMs),
    });
    // An idle connection that breaks has no statement to fail; the pool opens another when it is needed.
    pool.on('error', ignore);
    // For good: a connection can break while it is being closed too, when nobody has it any more.
    pool.on('connect', (client) => void client.on('error', ignore));
    return pool;
  }

  #newSocket(): Socket {
    const socket = new Socket();
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    return socket;
  }
}

/** One use of one connection of a pool. */
class Use {
  readonly #pool: Pool;
  #client: PoolClient | undefined;
  #isOver = false;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async run<Result>(run: (client: PoolClient) => Promise<Result>): Promise<Result> {
    const client = await this.#pool.connect();
    if (this.#isOver) {
      client.release();
      throw new DatabaseSilent('there was no connection in time');
    }
    this.#client = client;
    try {
      const result = await run(client);
      this.#release(false);
      return result;
    } catch (error) {
      // Whatever it holds, a lock or a transaction, ends with it.
      this.#release(true);
      throw error;
    }
  }

  /** Ends the connection in the middle of whatever it does. */
  destroy(): void {
    this.#isOver = true;
    this.#release(true);
  }

  #release(isBroken: boolean): void {
    const client = this.#client;
    this.#client = undefined;
    client?.release(isBroken);
  }
}

/** Runs a prepared statement on one connection. */
export async function ask<Row extends readonly unknown[]>(
  client: ClientBase,
  { name, text }: Statement,
  values: readonly unknown[],
): Promise<readonly Row[]> {
  const query = { name, text, values: [...values], rowMode: 'array' } as const;
  const { rows } = await client.query<Row & unknown[]>(query);
  return rows;
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
