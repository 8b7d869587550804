import type { Turn } from './request.js';
import { KNOWN_MISTAKES } from './sample.js';
import type { Answer, ScriptedCall } from './script.js';

const SIGNATURE = '(This is the demo model: a script that knows the sample task, not a language model.)';

/** What the demo model says next. It looks at what has happened, not at how often it was asked. */
export function plan(turns: readonly Turn[], tools: ReadonlySet<string>): Answer {
  const start = turns.findLastIndex(({ who }) => who === 'user');
  const asked = turns[start]?.text ?? '';
  const since = turns.slice(start + 1);
  const call = toldCall(asked);
  if (call !== undefined) return callAndReport(call, since, tools);
  if (/\btests?\b/i.test(asked) && /\b(fix|fails?|failing|mistake|broken)\b/i.test(asked)) return mend(since, tools);
  return oneStep(asked, since, tools);
}

/** The sample task: look, run the test, read what it complains of, mend it, run the test again, report. */
function mend(since: readonly Turn[], tools: ReadonlySet<string>): Answer {
  const ask = (text: string, call: ScriptedCall) => step(text, call, since, tools);
  const results = since.filter((turn) => turn.who === 'tool');
  const last = results.at(-1);
  const failed = results.filter(({ ok }) => !ok).length;
  if (failed >= 3)
    return {
      text: `I gave up after ${failed} tools had failed; the last one said: ${firstLine(last!.text)}\n\n${SIGNATURE}`,
    };
  const listing = results.find(({ name, ok }) => name === 'file_list' && ok);
  if (listing === undefined) return ask('I will look at the workspace first.', { name: 'file_list', arguments: {} });
  const test = /(?:^|[\s/"'`])([\w.-]*test[\w.-]*\.sh)\b/.exec(listing.text)?.[1];
  if (test === undefined) return { text: `There is no test script (test*.sh) in this workspace.\n\n${SIGNATURE}` };
  const runTest = (text: string) => ask(text, { name: 'shell_run', arguments: { command: `sh ${test}` } });

  const edit = results.findLast(({ name, ok }) => name === 'file_edit' && ok);
  const afterEdit = edit === undefined ? [] : results.slice(results.indexOf(edit) + 1);
  const run = (edit === undefined ? results : afterEdit).findLast(({ name }) => name === 'shell_run');
  if (edit !== undefined) {
    if (run === undefined) return runTest('Changed. Now the test again.');
    const read = results.findLast(({ name, ok }) => name === 'file_read' && ok);
    const because = mistakeIn(read?.text ?? '')?.because ?? 'it had a mistake';
    return passes(run.text)
      ? { text: `Fixed: ${because}. The test passes now: ${firstLine(run.text, /\bok: /)}\n\n${SIGNATURE}` }
      : { text: `I changed the file, but the test still fails: ${firstLine(run.text)}\n\n${SIGNATURE}` };
  }
  if (run === undefined) return runTest(`There is ${test}. I will run it to see what fails.`);
  if (passes(run.text)) return { text: `The test passes: there is nothing to fix.\n\n${SIGNATURE}` };

  const suspect = /FAILED:?\s+([\w./-]+\.\w+)/.exec(run.text)?.[1];
  if (suspect === undefined)
    return { text: `The test fails and does not say where: ${firstLine(run.text)}\n\n${SIGNATURE}` };
  const read = results.findLast(({ name, ok }) => name === 'file_read' && ok);
  if (read === undefined)
    return ask(`It complains of ${suspect}. I will read that file.`, {
      name: 'file_read',
      arguments: { path: suspect },
    });
  const mistake = mistakeIn(read.text);
  if (mistake === undefined)
    return {
      text: `I do not see what is wrong in ${suspect}; I only know the mistake of the sample task.\n\n${SIGNATURE}`,
    };
  return ask(`Found it: ${mistake.because}.`, {
    name: 'file_edit',
    arguments: { path: suspect, old_string: mistake.wrong, new_string: mistake.right },
  });
}

const passes = (output: string) => /\bok: /.test(output) && !/FAILED/.test(output);
const mistakeIn = (text: string) => KNOWN_MISTAKES.find(({ wrong }) => text.includes(wrong));

/** A task of the form `call NAME {json}`: that one call, to try a tool out. Text where the arguments are no JSON object. */
function toldCall(asked: string): ScriptedCall | string | undefined {
  const [, name, json] = /^\s*call\s+([^\s{]+)\s*(\{[\s\S]*\})?\s*$/i.exec(asked) ?? [];
  if (name === undefined) return undefined;
  try {
    return { name, arguments: JSON.parse(json ?? '{}') as Record<string, unknown> };
  } catch (error) {
    return `The arguments of ${name} are not JSON: ${(error as Error).message}`;
  }
}

function callAndReport(call: ScriptedCall | string, since: readonly Turn[], tools: ReadonlySet<string>): Answer {
  if (typeof call === 'string') return { text: `${call}\n\n${SIGNATURE}` };
  // A search for the tool is the way to it; when one was asked for, its result is the answer.
  const result = since.findLast(
    (turn) => turn.who === 'tool' && (turn.name !== 'tool_search' || call.name === turn.name),
  );
  return result?.who === 'tool' ? report(result) : step(`I will call ${call.name}.`, call, since, tools);
}

function report({ ok, text }: { ok: boolean; text: string }): Answer {
  return { text: `${ok ? 'This is what came out' : 'That did not work'}:\n\n${text}\n\n${SIGNATURE}` };
}

/** Small requests, one tool each: list the files, read a file, run a command in backquotes. */
function oneStep(asked: string, since: readonly Turn[], tools: ReadonlySet<string>): Answer {
  const ask = (text: string, call: ScriptedCall) => step(text, call, since, tools);
  const result = since.findLast((turn) => turn.who === 'tool' && turn.name !== 'tool_search');
  if (result !== undefined && result.who === 'tool') return report(result);
  const command = /(?:run|execute)[^`\n]*`([^`]+)`/i.exec(asked)?.[1];
  if (command !== undefined) return ask('I will run that.', { name: 'shell_run', arguments: { command } });
  const file = /\b(?:read|show|open|print)\b.*?([\w./-]+\.\w+)/i.exec(asked)?.[1];
  if (file !== undefined) return ask('I will read that file.', { name: 'file_read', arguments: { path: file } });
  if (/\blist\b|\bfiles\b/i.test(asked)) return ask('I will look.', { name: 'file_list', arguments: {} });
  return {
    text: `You said: ${asked.slice(0, 500)}\n\n${SIGNATURE} I can fix the sample's failing test, list the files, read a file, run a command that you put in \`backquotes\`, or call any tool: call NAME {json}.`,
  };
}

/**
 * Asks for a tool. One that is not shown but can be searched for is searched once: it is then in the list of tools, or
 * in the result's text. One that stays unknown is said to be missing.
 */
function step(text: string, call: ScriptedCall, since: readonly Turn[], tools: ReadonlySet<string>): Answer {
  const found = since.filter((turn) => turn.who === 'tool' && turn.name === 'tool_search');
  const searched = since.some(
    (turn) =>
      turn.who === 'model' &&
      turn.calls.some(({ name, arguments: { query } }) => name === 'tool_search' && query === call.name),
  );
  if (tools.has(call.name) || found.some((turn) => turn.text.includes(call.name))) return { text, calls: [call] };
  if (tools.has('tool_search') && !searched)
    return { text, calls: [{ name: 'tool_search', arguments: { query: call.name } }] };
  return { text: `I would need the tool ${call.name}, which I was not given.\n\n${SIGNATURE}` };
}

function firstLine(text: string, match = /\S/): string {
  return (text.split('\n').find((line) => match.test(line)) ?? '').trim().slice(0, 200);
}
