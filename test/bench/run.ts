// npm run -s bench -- [NAME...] [--json FILE] [--quick]: benchmarks, each with its floor or peer in the same run.
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { Bench, Row } from './report.ts';

const BENCHES: Record<string, () => Promise<{ bench: Bench }>> = {
  api: () => import('./api.ts'),
  bus: () => import('./bus.ts'),
  edits: () => import('./edits.ts'),
  router: () => import('./router.ts'),
  turn: () => import('./turn.ts'),
  render: () => import('./render.ts'),
  toolcalls: () => import('./toolcalls.ts'),
  shell: () => import('./shell.ts'),
  validate: () => import('./validate.ts'),
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'string' }, quick: { type: 'boolean', default: false } },
});
const names = positionals.length ? positionals : Object.keys(BENCHES);
const unknown = names.find((name) => !(name in BENCHES));
if (unknown !== undefined) {
  console.error(`no benchmark "${unknown}"; there are: ${Object.keys(BENCHES).join(', ')}`);
  process.exit(2);
}
const rows: Row[] = [];
const number = (value: number) => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3));
for (const name of names) {
  const { bench } = await BENCHES[name]!();
  for await (const row of bench({ quick: values.quick })) {
    rows.push(row);
    const against =
      row.against === undefined ? '' : `${row.ratio === undefined ? '' : `${row.ratio.toFixed(2)}x `}${row.against}`;
    const verdict = row.target === undefined ? '' : `${row.target}  ${row.ok ? 'met' : 'MISSED'}`;
    console.log(
      `${row.bench.padEnd(10)} ${row.metric.padEnd(44)} ${number(row.value).padStart(9)} ${row.unit.padEnd(8)} ${against.padEnd(30)} ${verdict}`,
    );
  }
}
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(rows, null, 1)}\n`);
process.exit(0);
