// The product handbook: a small MCP server over stdio.
import { object, refuse, say, serveTools } from './serve-tools.mjs';

const pages = [
  {
    id: 'refunds',
    title: 'Refunds',
    text: 'A refund is paid back within 14 days to the card that was charged.',
  },
  {
    id: 'shipping',
    title: 'Shipping',
    text: 'Parcels leave within one working day. A late parcel is worth a refund.',
  },
  { id: 'private-beta', title: 'Private beta', text: 'The private beta is open to teams of five or more.' },
];

await serveTools('docs', {
  search: {
    description: 'Searches the product handbook and returns the pages that mention a word.',
    inputSchema: object(
      {
        query: { type: 'string', examples: ['refund'] },
        limit: { type: 'integer', minimum: 1, maximum: 20 },
      },
      ['query'],
    ),
    run({ query, limit = 5 }) {
      const word = query.toLowerCase();
      const hits = pages.filter((page) => `${page.title} ${page.text}`.toLowerCase().includes(word));
      const lines = hits.slice(0, limit).map((page) => `docs/${page.id}: ${page.title}`);
      return say(lines.join('\n') || 'No page mentions it.');
    },
  },
  read_page: {
    description: 'Returns one page of the product handbook, with a link to it.',
    inputSchema: object(
      { page: { type: 'string', description: 'An id that search returned.', examples: ['refunds'] } },
      ['page'],
    ),
    run({ page: id }) {
      const page = pages.find((candidate) => candidate.id === id);
      if (page === undefined) return refuse(`There is no page "${id}".`);
      const link = { type: 'resource_link', name: page.title, uri: `https://docs.example.com/${id}` };
      return { content: [{ type: 'text', text: page.text }, link] };
    },
  },
  crash_for_test: {
    description: 'Ends this server at once. Only for tests of the host.',
    inputSchema: object({}, []),
    run: () => process.exit(1),
  },
});
