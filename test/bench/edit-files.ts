import { seeded } from './edit-trials.ts';

const WORDS = [
  'order',
  'wagon',
  'track',
  'signal',
  'queue',
  'depot',
  'route',
  'cargo',
  'switch',
  'shunt',
  'load',
  'plan',
  'timer',
  'brake',
  'axle',
  'ledger',
];

/** A TypeScript file of so many lines: functions of some twenty lines that resemble each other as real code does. */
export function bigFile(lines: number): string {
  const random = seeded(42);
  const word = () => WORDS[Math.floor(random() * WORDS.length)]!;
  const capital = (text: string) => text[0]!.toUpperCase() + text.slice(1);
  const out: string[] = [];
  for (let i = 0; out.length < lines; i++) {
    const [a, b, c] = [word(), word(), word()];
    out.push(`/** Moves the ${a} of ${b} ${i} to its ${c}. */`);
    out.push(
      `export async function ${a}${capital(b)}${i}(input: ${capital(c)}Input, limit = ${Math.floor(random() * 900)}): Promise<number> {`,
    );
    out.push(`  const ${c}Total = input.${a}s.length + ${Math.floor(random() * 99)};`);
    for (let j = 0; j < 4; j++) {
      const [d, e] = [word(), word()];
      out.push(`  if (${c}Total > limit * ${j + 2}) {`);
      out.push(`    await ${d}${capital(e)}(input, '${e}-${Math.floor(random() * 9999)}', ${c}Total);`);
      out.push(`  }`);
    }
    out.push(`  for (const ${b} of input.${b}s) {`);
    out.push(`    ${c}Sink.push({ ${b}, at: ${i}, weight: ${b}.weight * ${Math.floor(random() * 50)} });`);
    out.push(`  }`);
    out.push(`  return ${c}Total;`, `}`, ``);
  }
  return `${out.slice(0, lines).join('\n')}\n`;
}

/** Twenty lines from a line on; with `rewrapped`, their calls are broken over several lines as a formatter would. */
export function blockAt(lines: readonly string[], at: number, rewrapped: boolean): string[] {
  const block = lines.slice(at, at + 20);
  if (!rewrapped) return block;
  return block.flatMap((line) => {
    const match = /^(\s*)(await \w+\()(.*)(\);)$/.exec(line);
    if (!match) return line;
    const [, indent, head, inner, tail] = match;
    return [indent! + head!, ...inner!.split(', ').map((part) => `${indent!}  ${part},`), indent! + tail!];
  });
}
