/** Bit masks by UTF-16 unit, for the part of a text that is looked at; all zero between calls. */
const masks = new Int32Array(0x10000);
/** For each unit of the longer text: by how much the distance grows along it, 1, 0 or -1. */
let growth = new Int8Array(1024);

/**
 * Levenshtein distance in UTF-16 units, by the bit-parallel method of Myers in blocks of 32. A search compares tens of
 * thousands of lines, so nothing is allocated for a comparison.
 */
export function distance(a: string, b: string): number {
  if (a === b) return 0;
  const shorter = a.length <= b.length ? a : b;
  const longer = a.length <= b.length ? b : a;
  const width = longer.length;
  if (growth.length < width) growth = new Int8Array(2 * width);
  // Above the first line of the table every unit of the longer text costs one.
  growth.fill(1, 0, width);
  for (let from = 0; from < shorter.length; from += 32) {
    const size = Math.min(32, shorter.length - from);
    const last = 1 << (size - 1);
    for (let i = 0; i < size; i++) masks[shorter.charCodeAt(from + i)]! |= 1 << i;
    let up = -1;
    let down = 0;
    for (let j = 0; j < width; j++) {
      const enters = growth[j]!;
      const equal = masks[longer.charCodeAt(j)]!;
      const level = equal | down;
      const reached = enters < 0 ? equal | 1 : equal;
      const diagonal = (((reached & up) + up) ^ up) | reached;
      let more = down | ~(diagonal | up);
      let less = up & diagonal;
      growth[j] = (more & last) !== 0 ? 1 : (less & last) !== 0 ? -1 : 0;
      more = (more << 1) | (enters > 0 ? 1 : 0);
      less = (less << 1) | (enters < 0 ? 1 : 0);
      up = less | ~(level | more);
      down = more & level;
    }
    for (let i = 0; i < size; i++) masks[shorter.charCodeAt(from + i)] = 0;
  }
  let units = shorter.length;
  for (let j = 0; j < width; j++) units += growth[j]!;
  return units;
}
