// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references of configuration files look like templates
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { interpolate } from '../../../src/config/interpolate.ts';
import { createVariables } from '../../../src/config/variables.ts';
import { folderWith } from '../../support/load-config.ts';

const env = { NAME: 'value', EMPTY: '', LITERAL: '${NAME}' };
const fill = (text: string, more: Record<string, string> = {}) =>
  interpolate(
    text,
    createVariables({ ...env, ...more }, '/', () => {}),
  );

test.each([
  ['no reference, $NAME, $ {NAME}, {NAME}', 'no reference, $NAME, $ {NAME}, {NAME}'],
  ['${NAME}', 'value'],
  ['a ${NAME} b ${env:NAME} c', 'a value b value c'],
  ['${NAME:-other}', 'value'],
  ['${UNSET:-other}', 'other'],
  ['${UNSET:-}', ''],
  ['${UNSET:-a:-b$c}', 'a:-b$c'],
  ['${env:UNSET:-other}', 'other'],
  ['${EMPTY:-other}', 'other'],
  ['[${EMPTY}]', '[]'],
  ['$${NAME}', '${NAME}'],
  ['$${NAME} ${NAME}', '${NAME} value'],
  ['${LITERAL}', '${NAME}'],
])('%j becomes %j', async (text, expected) => {
  expect(await fill(text)).toMatchObject({ ok: true, value: { text: expected } });
});

test.each([
  ['${UNSET}', /^the variable UNSET is not set: .*UNSET_FILE.*default/],
  ['${input:token}', /asks a person at a keyboard/],
  ['${command:x}', /is not understood/],
  ['${}', /is not understood/],
  ['${a b}', /is not understood/],
  ['${NAME', /no closing/],
])('%j is refused', async (text, expected) => {
  expect(await fill(text)).toMatchObject({ ok: false, error: expect.stringMatching(expected) });
});

test('a variable can come from the file that NAME_FILE names, without its last newline alone', async () => {
  const folder = folderWith({ secret: ' two lines\n\n', crlf: 'x\r\n' });
  const files = {
    A_FILE: join(folder, 'secret'),
    B_FILE: join(folder, 'crlf'),
    EMPTY_FILE: join(folder, 'crlf'),
  };
  expect(await fill('${A}', files)).toMatchObject({
    value: { text: ' two lines\n', fileValues: [' two lines\n'] },
  });
  expect(await fill('${B}', files)).toMatchObject({ value: { text: 'x' } });
  expect(await fill('${EMPTY}', files)).toMatchObject({ value: { text: 'x' } });
  expect(await fill('${NAME}', { NAME_FILE: join(folder, 'secret') })).toMatchObject({
    value: { text: 'value', fileValues: [] },
  });
  expect(await fill('${C}', { C_FILE: join(folder, 'missing') })).toMatchObject({
    error: expect.stringMatching(/^C_FILE names .*missing, which cannot be read \(ENOENT\)$/),
  });
});
