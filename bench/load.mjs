// Closed loops: a fixed number of callers, each sending its next call when the last one is answered.
import { connect } from 'node:net';
import { performance } from 'node:perf_hooks';

const answerMsMax = 30_000;

/** Collects the latencies of one slice of load. The first failure ends it: a benchmark of wrong answers is worth nothing. */
class Slice {
  #latenciesMs = [];
  #failure;
  #startMs = performance.now();
  #endMs;

  constructor(seconds) {
    this.#endMs = this.#startMs + seconds * 1000;
  }

  get isOver() {
    return this.#failure !== undefined || performance.now() >= this.#endMs;
  }

  answered(sentMs) {
    this.#latenciesMs.push(performance.now() - sentMs);
  }

  fail(error) {
    this.#failure ??= error;
  }

  result() {
    if (this.#failure !== undefined) throw this.#failure;
    const seconds = (performance.now() - this.#startMs) / 1000;
    const sorted = Float64Array.from(this.#latenciesMs).sort();
    const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
    return {
      calls: sorted.length,
      callsPerS: sorted.length / seconds,
      p50Ms: at(0.5),
      p99Ms: at(0.99),
      maxMs: at(1),
    };
  }
}

/** Runs `call` in loops. It must throw when an answer is not the right one. */
export async function loadFunction(call, { inFlight, seconds }) {
  const slice = new Slice(seconds);
  const loop = async () => {
    while (!slice.isOver) {
      const sentMs = performance.now();
      try {
        await call();
        slice.answered(sentMs);
      } catch (error) {
        slice.fail(error);
      }
    }
  };
  await Promise.all(Array.from({ length: inFlight }, loop));
  return slice.result();
}

/**
 * Sends requests over raw sockets that are kept alive, one at a time on each. A client library would cost more than what is
 * measured. `next()` gives the body to send and the text that its answer must contain.
 */
export async function loadHttp(request, { inFlight, seconds }) {
  const { port, method, path, headers, status = 200, next } = request;
  const slice = new Slice(seconds);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = `${method} ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${lines.join('')}`;

  const loop = () =>
    new Promise((resolve) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true });
      const answer = new Answer();
      let expected;
      let sentMs;
      const send = () => {
        if (slice.isOver) {
          socket.destroy();
          return;
        }
        const message = next();
        expected = message.expected;
        answer.reset();
        sentMs = performance.now();
        socket.write(`${head}content-length: ${Buffer.byteLength(message.body)}\r\n\r\n${message.body}`);
      };
      socket.on('connect', send);
      socket.on('data', (chunk) => {
        if (!answer.add(chunk)) return;
        slice.answered(sentMs);
        if (answer.status !== status || !answer.includes(expected)) {
          slice.fail(new Error(`${method} ${path} was not answered as expected: ${answer.excerpt()}`));
        }
        send();
      });
      socket.setTimeout(answerMsMax, () => socket.destroy(new Error(`no answer within ${answerMsMax} ms`)));
      socket.on('error', (error) => slice.fail(error));
      socket.on('close', () => {
        if (!slice.isOver) slice.fail(new Error(`${method} ${path}: the connection was closed`));
        resolve();
      });
    });
  await Promise.all(Array.from({ length: inFlight }, loop));
  return slice.result();
}

/** One HTTP answer, put together from the chunks in which it arrives. */
class Answer {
  status;
  #chunks = [];
  #bytes = 0;
  #bytesWanted;

  reset() {
    this.#chunks = [];
    this.#bytes = 0;
    this.#bytesWanted = undefined;
  }

  /** Whether the answer is whole with this chunk. */
  add(chunk) {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytesWanted === undefined) this.#readHead();
    if (this.#bytesWanted === Number.POSITIVE_INFINITY) return this.#all().subarray(-5).equals(lastChunk);
    return this.#bytes >= this.#bytesWanted;
  }

  includes(text) {
    return this.#all().includes(text);
  }

  excerpt() {
    return this.#all().toString('utf8', 0, 1000);
  }

  #readHead() {
    const bytes = this.#all();
    const end = bytes.indexOf('\r\n\r\n');
    if (end < 0) return;
    const head = bytes.latin1Slice(0, end);
    this.status = Number(head.slice(9, 12));
    const length = /^content-length: (\d+)/im.exec(head)?.[1];
    if (length !== undefined) this.#bytesWanted = end + 4 + Number(length);
    else this.#bytesWanted = this.status === 304 ? end + 4 : Number.POSITIVE_INFINITY;
  }

  #all() {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0];
  }
}

const lastChunk = Buffer.from('0\r\n\r\n');
