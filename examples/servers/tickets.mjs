// The ticket desk: a small MCP server over stdio.
import { object, refuse, say, serveTools } from './serve-tools.mjs';

const tickets = [
  { id: 'T-1', title: 'Refund has not arrived', priority: 'P2' },
  { id: 'T-2', title: 'Cannot sign in', priority: 'P1' },
];

await serveTools('tickets', {
  search: {
    description: 'Searches the tickets of customers and returns those whose title has a word.',
    inputSchema: object(
      {
        query: { type: 'string', examples: ['refund'] },
        limit: { type: 'integer', minimum: 1, maximum: 20 },
      },
      ['query'],
    ),
    run({ query, limit = 5 }) {
      const word = query.toLowerCase();
      // The server's own rule, whatever its host allowed.
      if (word.includes('private'))
        return refuse('Policy of the ticket desk: private tickets are not searched.');
      const hits = tickets.filter((ticket) => ticket.title.toLowerCase().includes(word));
      const lines = hits.slice(0, limit).map((ticket) => `tickets/${ticket.id}: ${ticket.title}`);
      return say(lines.join('\n') || 'No ticket matches.');
    },
  },
  get_ticket: {
    description: 'Returns one ticket.',
    inputSchema: object(
      { id: { type: 'string', description: 'An id that search returned.', examples: ['T-1'] } },
      ['id'],
    ),
    run({ id }) {
      const ticket = tickets.find((candidate) => candidate.id === id);
      if (ticket === undefined) return refuse(`There is no ticket "${id}".`);
      return { ...say(JSON.stringify(ticket)), structuredContent: ticket };
    },
  },
  create_ticket: {
    description: 'Opens a ticket and returns its id.',
    inputSchema: object(
      { title: { type: 'string', minLength: 1 }, priority: { type: 'string', enum: ['P1', 'P2', 'P3'] } },
      ['title'],
    ),
    run({ title, priority = 'P3' }) {
      const id = `T-${tickets.length + 1}`;
      tickets.push({ id, title, priority });
      return say(`Created ${id}.`);
    },
  },
  crash_for_test: {
    description: 'Ends this server at once. Only for tests of the host.',
    inputSchema: object({}, []),
    run: () => process.exit(1),
  },
});
