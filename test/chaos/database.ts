import { startPostgres } from '../support/postgres.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import type { DatabaseLine } from './replicas-loop.ts';

/** A database with a way of its own for each replica, which can be cut. */
export interface ChaosDatabase {
  readonly lines: readonly DatabaseLine[];
  close(): Promise<void>;
}

/** A way that is closed in the end. */
export interface ClosableLine extends DatabaseLine {
  close(): Promise<void>;
}

/** Starts a PostgreSQL server with one database. @throws where there is none to start */
export async function openDatabase(replicas: number): Promise<ChaosDatabase> {
  const server = await startPostgres();
  const database = await server.createDatabase();
  const lines = await linesTo(database.url, replicas);
  return {
    lines,
    close: async () => {
      await Promise.all(lines.map((line) => line.close()));
      await database.drop();
      await server.stop();
    },
  };
}

/** Ways to a database, one for each replica. */
export const linesTo = (url: string, replicas: number): Promise<readonly ClosableLine[]> =>
  Promise.all(
    Array.from({ length: replicas }, async () => {
      const { hostname, port } = new URL(url);
      const proxy = await TcpProxy.open({ host: hostname, port: Number(port) });
      return {
        url: proxy.through(url),
        cut: () => proxy.cut(),
        refuse: () => proxy.refuse(),
        stall: () => proxy.stall(),
        resume: () => proxy.resume(),
        close: () => proxy.close(),
      };
    }),
  );
