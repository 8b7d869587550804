/** Levels of plain values (defaults, enum members, …) that later steps can still walk by recursion. */
const MAX_LEVELS = 256;

/** The length in bytes of a value's compact JSON, or some number over `limit` as soon as that is certain. */
export function jsonSize(value: unknown, limit: number): number | 'too_deep' {
  let size = 0;
  const open: [unknown, number][] = [[value, 1]];
  for (let at = open.pop(); at !== undefined && size <= limit; at = open.pop()) {
    const [item, level] = at;
    if (level > MAX_LEVELS) return 'too_deep';
    if (typeof item === 'string') size += textSize(item, limit);
    else if (typeof item !== 'object' || item === null) size += String(item).length;
    else if (Array.isArray(item)) {
      size += 2 + Math.max(0, item.length - 1);
      for (const child of item) open.push([child, level + 1]);
    } else {
      const entries = Object.entries(item);
      size += 2 + Math.max(0, entries.length - 1);
      for (const [key, child] of entries) {
        size += textSize(key, limit) + 1;
        open.push([child, level + 1]);
      }
    }
  }
  return size;
}

function textSize(text: string, limit: number): number {
  return text.length > limit ? text.length + 2 : Buffer.byteLength(JSON.stringify(text));
}
