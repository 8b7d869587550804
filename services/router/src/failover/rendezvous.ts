/** A number in [0, 2^32) that depends on both texts and on nothing else: the same in every replica. */
export function rendezvousScore(node: string, key: string): number {
  let hash = 0x811c9dc5;
  for (const text of [node, '\u0000', key]) {
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  }
  // FNV alone leaves the high bits of short texts alike; these rounds spread them.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
