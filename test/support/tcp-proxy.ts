import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy on loopback whose connections can be cut or held up, for tests of what a network does on a bad day. */
export class TcpProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isStalled = false;
  #isRefusing = false;

  private constructor(target: { readonly host: string; readonly port: number }) {
    // Half-closed connections stay so: the other side may still be sending.
    this.#server = createServer({ allowHalfOpen: true }, (inner) => {
      if (this.#isRefusing) {
        inner.resetAndDestroy();
        return;
      }
      const outer = connect({ ...target, allowHalfOpen: true });
      this.#join(inner, outer);
      this.#join(outer, inner);
    });
  }

  /** Opens a proxy in front of a port. */
  static async open(target: { readonly host: string; readonly port: number }): Promise<TcpProxy> {
    const proxy = new TcpProxy(target);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** How many connections go through at present. */
  get connections(): number {
    return this.#sockets.size / 2;
  }

  /** The URL with the proxy in place of its host. */
  through(url: string): string {
    const changed = new URL(url);
    changed.hostname = '127.0.0.1';
    changed.port = String(this.port);
    return changed.href;
  }

  /** Resets every connection; new ones are taken. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
    this.#sockets.clear();
  }

  /** Resets every connection, and each new one until `resume`. */
  refuse(): void {
    this.#isRefusing = true;
    this.cut();
  }

  /** Passes on nothing more, in either direction; connections are still taken, and kept. */
  stall(): void {
    this.#isStalled = true;
    for (const socket of this.#sockets) socket.pause();
  }

  /** Ends `stall` and `refuse`; what was held up is passed on now. */
  resume(): void {
    this.#isStalled = false;
    this.#isRefusing = false;
    for (const socket of this.#sockets) socket.resume();
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #join(from: Socket, to: Socket): void {
    this.#sockets.add(from);
    from.on('data', (bytes) => {
      if (!to.write(bytes)) from.pause();
    });
    to.on('drain', () => {
      if (!this.#isStalled) from.resume();
    });
    from.on('end', () => to.end());
    // A reset on one side is a reset on the other.
    from.on('error', () => to.resetAndDestroy());
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroySoon();
    });
    if (this.#isStalled) from.pause();
  }
}
