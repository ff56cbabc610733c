import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'SECURITY.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'docs/codes.md',
  'docs/delivery.md',
  'docs/reliability.md',
  'docs/configuration.md',
  'docs/formats.md',
  'docs/performance.md',
  'docs/servers.md',
];

describe('the README', () => {
  test.each([
    ['ts', 'examples/loops/openai-responses.ts'],
    ['python', 'examples/loops/openai-responses.py'],
  ])('quotes the loop in %s word for word from %s', (language, path) => {
    expect(read('README.md')).toContain(`\`\`\`${language}\n${read(path)}\`\`\`\n`);
  });
});

describe('the links between the documents', () => {
  test.each(pages)('%s points only to files and headings that exist', (page) => {
    const links = [...read(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target ?? '');
    for (const link of links.filter((target) => !/^(https?|mailto):/.test(target))) {
      const [path = '', heading] = link.split('#');
      const target = path === '' ? page : join(dirname(page), path);
      expect(existsSync(join(root, target)), `${page}: ${link}`).toBe(true);
      if (heading !== undefined) expect(headingsOf(target), `${page}: ${link}`).toContain(heading);
    }
  });
});

/** The anchors of a page, as code hosts make them from its headings. */
const headingsOf = (page: string): readonly string[] =>
  [...read(page).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-'),
  );
