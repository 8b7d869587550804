import { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import type { OutputForm } from './command.js';
import { fields, Output } from './output.js';
import { ago, cut, displayWidth, table } from './table.js';

function output(form: OutputForm, quiet = false) {
  const text = { out: '', err: '' };
  const into = (name: 'out' | 'err') =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        text[name] += chunk.toString();
        done();
      },
    });
  return { text, output: new Output(form, quiet, into('out'), into('err')) };
}

const COLUMNS = [
  { name: 'id', of: (item: { id: string; n: number }) => item.id },
  { name: 'n', of: (item: { id: string; n: number }) => item.n, wide: true },
];
const PAGE = {
  items: [
    { id: 'a', n: 1 },
    { id: 'b', n: 2 },
  ],
  next_cursor: null,
};

describe('a list', () => {
  it.each<[OutputForm, string]>([
    ['table', 'ID\na\nb\n'],
    ['wide', 'ID  N\na   1\nb   2\n'],
    ['json', `${JSON.stringify(PAGE, null, 2)}\n`],
    ['jsonl', '{"id":"a","n":1}\n{"id":"b","n":2}\n'],
    ['yaml', 'items:\n  - id: a\n    n: 1\n  - id: b\n    n: 2\nnext_cursor: null\n'],
    ['name', 'a\nb\n'],
  ])('as %s', async (form, expected) => {
    const { text, output: out } = output(form);
    await out.page(PAGE, COLUMNS, 'nothing');
    expect(text).toEqual({ out: expected, err: '' });
  });

  it('that is empty is a page for programs and a hint on stderr for people', async () => {
    const machine = output('json');
    await machine.output.page(
      { items: [], next_cursor: null } as { items: { id: string; n: number }[] },
      COLUMNS,
      'nothing',
    );
    expect(JSON.parse(machine.text.out)).toEqual({ items: [], next_cursor: null });
    const people = output('table');
    await people.output.page({ items: [] }, COLUMNS, 'nothing yet');
    expect(people.text).toEqual({ out: '', err: 'nothing yet\n' });
    const quiet = output('table', true);
    await quiet.output.page({ items: [] }, COLUMNS, 'nothing yet');
    expect(quiet.text).toEqual({ out: '', err: '' });
  });
});

describe('a table', () => {
  it('counts the columns of wide characters', () => {
    expect(displayWidth('한국어 a')).toBe(8);
    expect(cut('한국어', 5)).toBe('한국…');
    const rows = table(
      [
        { a: '한국', b: 'x' },
        { a: 'ab', b: 'y' },
      ],
      [
        { name: 'a', of: (row) => row.a },
        { name: 'b', of: (row) => row.b },
      ],
      false,
    );
    expect(rows).toBe('A     B\n한국  x\nab    y');
  });

  it('lets no control character through, and shows what is absent as a hyphen', () => {
    const rows = table(
      [{ a: 'red\u001B[31m\nnext', b: null }],
      [
        { name: 'a', of: (row) => row.a },
        { name: 'b', of: (row) => row.b },
      ],
      false,
    );
    expect(rows).toBe('A                 B\nred\\x1b[31m next  -');
  });
});

it('leaves out fields that are absent', () => {
  expect(
    fields([
      ['a', 1],
      ['long', undefined],
      ['b', 'x'],
    ]),
  ).toBe('a  1\nb  x');
});

it.each([
  [30_000, '30 s ago'],
  [600_000, '10 min ago'],
  [7_200_000, '2 h ago'],
  [259_200_000, '3 d ago'],
])('%i ms is %s', (ms, words) => {
  const now = Date.now();
  expect(ago(new Date(now - ms).toISOString(), now)).toBe(words);
});
