import type { Invocation } from '../cli/invocation.js';
import { EXIT } from '../exit-codes.js';
import { Terminal } from '../terminal.js';
import { CHECKS } from '../doctor/checks.js';
import { examine } from '../doctor/examine.js';

/** `yard doctor`: every check with its result; exit 0 when none failed. */
export async function doctor(invocation: Invocation): Promise<number> {
  const { output } = invocation;
  const items = await examine(CHECKS, invocation);
  const paint = new Terminal(process.stdout, { noColour: invocation.on('no-color') });
  const failed = items.filter((item) => item.state === 'failed');
  if (output.structured) await output.page({ items }, [], '');
  else
    for (const { id, title, state, detail, remedy } of items) {
      const word = { ok: paint.green('ok     '), failed: paint.red('FAILED '), skipped: paint.dim('skipped') }[state];
      output.line(output.form === 'name' ? id : `${word}  ${title.padEnd(33)}  ${detail}`);
      if (state === 'failed' && output.form !== 'name')
        output.line(`         -> ${remedy ?? 'see the logs: yard logs'}`);
    }
  const skipped = items.filter((item) => item.state === 'skipped').length;
  output.note(`${items.length - failed.length - skipped} ok, ${failed.length} failed, ${skipped} skipped`);
  return failed.length === 0 ? EXIT.ok : EXIT.bug;
}
