import { applyPatch } from 'diff';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyEdit, findEdit, type EditRequest } from './index.js';

const line = fc.stringMatching(/^[ \t]{0,4}[a-zA-Zé가 (){}=;."'-]{0,20}$/);
const eol = fc.constantFrom('\n', '\r\n');
/** A file as lines with their own line ends, with or without BOM and final newline. */
const file = fc
  .record({
    lines: fc.array(fc.tuple(line, eol), { minLength: 1, maxLength: 25 }),
    bom: fc.boolean(),
    final: fc.boolean(),
  })
  .map(
    ({ lines, bom, final }) =>
      (bom ? '\ufeff' : '') +
      lines.map(([text, end], i) => (i < lines.length - 1 || final ? text + end : text)).join(''),
  );
const anyRequest: fc.Arbitrary<EditRequest> = fc.record(
  {
    oldString: fc.string({ maxLength: 60, unit: 'binary' }),
    newString: fc.string({ maxLength: 60 }),
    replaceAll: fc.boolean(),
    lineHint: fc.integer({ min: 1, max: 30 }),
  },
  { requiredKeys: ['oldString', 'newString'] },
);
/** A request cut out of the file's own lines, with blanks and letters disturbed, so that every pass is reached. */
const aimed = file.chain((content) => {
  const lines = content.replace('\ufeff', '').replaceAll('\r\n', '\n').split('\n');
  return fc
    .record({
      content: fc.constant(content),
      from: fc.nat(lines.length - 1),
      count: fc.integer({ min: 1, max: 8 }),
      edit: line,
      disturb: fc.array(fc.tuple(fc.nat(200), fc.constantFrom('', ' ', 'x', '  ')), { maxLength: 3 }),
      hint: fc.option(fc.integer({ min: 1, max: 30 }), { nil: undefined }),
    })
    .map(({ from, count, edit, disturb, hint }) => {
      const block = lines.slice(from, from + count);
      let oldString = block.join('\n');
      for (const [at, text] of disturb)
        oldString =
          oldString.slice(0, at % (oldString.length + 1)) + text + oldString.slice((at % (oldString.length + 1)) + 1);
      const request: EditRequest = {
        oldString,
        newString: [...block.slice(0, -1), edit].join('\n'),
        ...(hint === undefined ? {} : { lineHint: hint }),
      };
      return { content, request };
    });
});
const anyEdit = fc.oneof(aimed, fc.record({ content: file, request: anyRequest }));

describe('applyEdit', () => {
  it('changes nothing outside its splices, and its diff leads to its content', async () => {
    await fc.assert(
      fc.asyncProperty(anyEdit, async ({ content, request }) => {
        const result = await applyEdit(content, request, { path: 'a.txt' });
        if (result.status !== 'applied') return;
        let from = 0;
        let at = 0;
        for (const splice of result.splices) {
          const kept = content.slice(from, splice.start);
          expect(result.content.slice(at, at + kept.length)).toBe(kept);
          at += kept.length + splice.text.length;
          from = splice.end;
        }
        expect(result.content.slice(at)).toBe(content.slice(from));
        expect(result.confidence).toBeGreaterThanOrEqual(0.8);
        expect([7, 9]).not.toContain(result.pass);
        if (!content.includes('\r')) expect(applyPatch(content, result.diff)).toBe(result.content);
      }),
      { numRuns: 1000 },
    );
  });

  it('never throws, and finds the same as findEdit', async () => {
    await fc.assert(
      fc.asyncProperty(anyEdit, async ({ content, request }) => {
        const applied = await applyEdit(content, request);
        const found = findEdit(content, request);
        expect(found.status).toBe(applied.status === 'applied' ? 'found' : applied.status);
      }),
      { numRuns: 1000 },
    );
  });

  it('is made once however often it is delivered, when it inserts lines', async () => {
    await fc.assert(
      fc.asyncProperty(aimed, async ({ content, request }) => {
        const insertion = { ...request, newString: `${request.oldString}\nan added line ${request.newString.length}` };
        const first = await applyEdit(content, insertion);
        if (first.status !== 'applied') return;
        const second = await applyEdit(first.content, insertion);
        expect(second.status).not.toBe('applied');
      }),
      { numRuns: 1000 },
    );
  });

  it('keeps every line end that it does not replace', async () => {
    const content = 'one\r\ntwo\nthree\r\nfour\n';
    const result = await applyEdit(content, { oldString: 'one\ntwo\nthree', newString: 'one\nTWO\nthree' });
    expect(result.status === 'applied' && result.content).toBe('one\r\nTWO\nthree\r\nfour\n');
  });

  it('refuses half a character instead of writing a replacement sign', async () => {
    const result = await applyEdit('a 😀 b', { oldString: 'a', newString: '\ud83d' });
    expect(result.status).toBe('invalid_input');
  });

  it('refuses an edit that fits two places and names both', async () => {
    const result = await applyEdit('a = 1\nb\na = 1\n', { oldString: 'a = 1', newString: 'a = 2' });
    expect(result).toMatchObject({ status: 'ambiguous', lines: [1, 3] });
  });

  it('does not let a hint that has become stale move a second delivery to a twin', async () => {
    const content = 'x = load(1)\ny\nz\nw\nx = load(1)\n';
    const request = { oldString: 'x = load(1)', newString: 'x = load(2)', lineHint: 5 };
    const first = await applyEdit(content, request);
    expect(first.status === 'applied' && first.content).toBe('x = load(1)\ny\nz\nw\nx = load(2)\n');
    const second = await applyEdit(first.status === 'applied' ? first.content : '', request);
    expect(second.status).toBe('already_applied');
  });
});
