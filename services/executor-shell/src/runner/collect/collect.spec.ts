import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ControlStripper } from './control-sequences.js';
import { fitStreams, StreamCollector } from './stream-collector.js';

const strip = (...pieces: string[]): string => {
  const stripper = new ControlStripper();
  return pieces.map((piece) => stripper.write(piece)).join('') + stripper.end();
};
const empty = { head: Buffer.alloc(0), tail: Buffer.alloc(0), lost: 0 };

describe('control sequences', () => {
  it.each([
    ['\x1b[31mred\x1b[0m', 'red'],
    ['\x1b]0;title\x07x', 'x'],
    ['\x1b]52;c;cm0gLXJm\x1b\\x', 'x'],
    ['a\x1b[2J\x1b[Hb', 'ab'],
    ['\x9b31mx', 'x'],
    ['\x1bPq#0\x1b\\x', 'x'],
    ['a\x08\x07\0b', 'ab'],
    ['a\tb\r\nc', 'a\tb\r\nc'],
    ['\x1b]never closed\nnext', 'never closed\nnext'],
    ['end\x1b', 'end'],
    ['\x1b(Bx', 'x'],
  ])('%j becomes %j', (text, expected) => {
    expect(strip(text)).toBe(expected);
    // wherever the pieces are cut
    for (let i = 0; i <= text.length; i++) expect(strip(text.slice(0, i), text.slice(i))).toBe(expected);
  });
});

describe('stream collector', () => {
  it('answers the same text however the bytes are cut', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', maxLength: 200 }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        (text, sizes) => {
          const clean = strip(text);
          const bytes = Buffer.from(text);
          const collector = new StreamCollector(10_000);
          for (let at = 0, i = 0; at < bytes.length; i++) {
            const size = sizes[i % sizes.length]!;
            collector.push(bytes.subarray(at, at + size));
            at += size;
          }
          expect(fitStreams(collector.snapshot(true), empty, 10_000).stdout).toBe(clean);
        },
      ),
    );
  });

  it('never gives more than its limit, and keeps beginning and end', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 300, max: 5000 }),
        fc.array(fc.uint8Array({ maxLength: 3000 }), { maxLength: 12 }),
        fc.array(fc.uint8Array({ maxLength: 3000 }), { maxLength: 12 }),
        (cap, out, err) => {
          const streams = [out, err].map((chunks) => {
            const collector = new StreamCollector(cap);
            for (const chunk of chunks) collector.push(chunk);
            return collector;
          });
          const fit = fitStreams(streams[0]!.snapshot(true), streams[1]!.snapshot(true), cap);
          expect(Buffer.byteLength(fit.stdout) + Buffer.byteLength(fit.stderr)).toBeLessThanOrEqual(cap);
        },
      ),
    );
    const collector = new StreamCollector(1000);
    collector.push(Buffer.from('FIRST\n'));
    for (let i = 0; i < 5000; i++) collector.push(Buffer.from(`${i}\n`));
    collector.push(Buffer.from('LAST\n'));
    const { stdout, truncated } = fitStreams(collector.snapshot(true), empty, 1000);
    expect(truncated).toBe(true);
    expect(stdout.startsWith('FIRST\n')).toBe(true);
    expect(stdout.endsWith('LAST\n')).toBe(true);
    expect(stdout).toMatch(/\[\.\.\. \d+ bytes left out \.\.\.\]/);
  });

  it('gives the whole limit to the stream that needs it', () => {
    const out = new StreamCollector(1000);
    out.push(Buffer.alloc(900, 'x'));
    const err = new StreamCollector(1000);
    err.push(Buffer.from('small'));
    expect(fitStreams(out.snapshot(true), err.snapshot(true), 1000)).toEqual({
      stdout: 'x'.repeat(900),
      stderr: 'small',
      truncated: false,
    });
  });
});
