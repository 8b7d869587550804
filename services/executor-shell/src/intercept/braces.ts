const MOST = 64;

/** The words of a brace expression such as `{a,b{1..3}}`; one that bash would leave alone is answered as it is. */
export function expandBraces(text: string): string[] {
  const open = text.indexOf('{');
  if (open === -1) return [unquote(text)];
  let depth = 0;
  const cuts: number[] = [];
  let close = -1;
  for (let i = open; i < text.length; i++) {
    const c = text[i];
    if (c === '\\') i++;
    else if (c === '{') depth++;
    else if (c === ',' && depth === 1) cuts.push(i);
    else if (c === '}' && --depth === 0) {
      close = i;
      break;
    }
  }
  if (close === -1) return [unquote(text)];
  const before = text.slice(0, open);
  const inside = text.slice(open + 1, close);
  const rest = expandBraces(text.slice(close + 1));
  const range = /^(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?$/.exec(inside);
  let choices: string[];
  if (range !== null) choices = sequence(range[1]!, range[2]!);
  else if (cuts.length > 0) {
    const ends = [...cuts, close];
    choices = ends.flatMap((end, i) => expandBraces(text.slice(i === 0 ? open + 1 : cuts[i - 1]! + 1, end)));
  } else choices = [`{${inside}}`];
  return choices.flatMap((choice) => rest.map((tail) => unquote(before) + choice + tail)).slice(0, MOST);
}

function sequence(from: string, to: string): string[] {
  const numeric = /\d/.test(from) && /\d/.test(to);
  const a = numeric ? Number(from) : from.charCodeAt(0);
  const b = numeric ? Number(to) : to.charCodeAt(0);
  const step = a <= b ? 1 : -1;
  const out: string[] = [];
  for (let i = a; out.length < MOST && (step > 0 ? i <= b : i >= b); i += step)
    out.push(numeric ? String(i) : String.fromCharCode(i));
  return out;
}

function unquote(text: string): string {
  return text.replace(/\\(.)|["']/gs, '$1');
}
