// A Streamable HTTP server with one tool that gives back its text, without the SDK, so that next to all CPU is the client's.
// It answers in one JSON body under /json and in an event stream under /sse, and sends its port to its parent.
import { createServer } from 'node:http';

const echo = { name: 'echo', inputSchema: { type: 'object' } };
const results = {
  initialize: () => ({
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'echo-http', version: '1' },
  }),
  ping: () => ({}),
  'tools/list': () => ({ tools: [echo] }),
  'tools/call': ({ arguments: { text } }) => ({ content: [{ type: 'text', text }] }),
};

const server = createServer((request, response) => {
  if (request.method !== 'POST') {
    request.resume();
    response.writeHead(405).end();
    return;
  }
  let body = '';
  request.setEncoding('utf8');
  request.on('data', (text) => {
    body += text;
  });
  request.on('end', () => {
    const { id, method, params } = JSON.parse(body);
    if (id === undefined) {
      response.writeHead(202).end();
      return;
    }
    const message = JSON.stringify({ jsonrpc: '2.0', id, result: results[method](params) });
    if (request.url === '/sse') {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
      response.end(`event: message\ndata: ${message}\n\n`);
    } else {
      response.writeHead(200, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(message),
      });
      response.end(message);
    }
  });
});
server.listen(0, '127.0.0.1', () => process.send(server.address().port));
process.once('disconnect', () => process.exit());
