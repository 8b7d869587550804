import { isIP } from 'node:net';

/** An IP address as a number, so that every spelling of it is the same. */
export interface Address {
  family: 4 | 6;
  value: bigint;
}

/** A range of addresses. */
export interface Range extends Address {
  prefix: number;
}

// Not through `range`, which turns mapped ranges into those of IPv4.
const V4_MAPPED: Range = { family: 6, value: 0xffffn << 32n, prefix: 96 };
const NAT64: Range = { family: 6, value: 0x64ff9bn << 96n, prefix: 96 };

/** The address in `text` (dotted IPv4, or IPv6 with or without brackets), undefined when it is none. Zones are refused. */
export function parseAddress(text: string): Address | undefined {
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  const family = isIP(bare);
  if (family === 4) return { family: 4, value: v4(bare) };
  if (family !== 6 || bare.includes('%')) return undefined;
  // A dotted tail is two groups.
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(bare);
  let groups = bare;
  if (dotted !== null) {
    const tail = v4(dotted[2]!);
    groups = `${dotted[1]}${(tail >> 16n).toString(16)}:${(tail & 0xffffn).toString(16)}`;
  }
  const [head = '', rest] = groups.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = rest === undefined || rest === '' ? [] : rest.split(':');
  const all = [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right];
  return { family: 6, value: all.reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n) };
}

function v4(text: string): bigint {
  return text.split('.').reduce((value, part) => (value << 8n) | BigInt(part), 0n);
}

/** A CIDR range; IPv4-mapped ranges become the IPv4 range they are. Throws for anything else. */
export function range(cidr: string): Range {
  const [text = '', length, ...more] = cidr.split('/');
  const address = parseAddress(text);
  const bits = address?.family === 4 ? 32 : 128;
  const prefix = length === undefined ? bits : /^\d{1,3}$/.test(length) ? Number(length) : NaN;
  if (address === undefined || more.length > 0 || !(prefix <= bits)) throw new RangeError(`"${cidr}" is no CIDR range`);
  if (address.family === 6 && prefix >= 96 && address.value >> 32n === 0xffffn)
    return { family: 4, value: address.value & 0xffff_ffffn, prefix: prefix - 96 };
  return { ...address, prefix };
}

/** Is the address in the range? Families never match each other. */
export function contains(outer: Range, { family, value }: Address): boolean {
  if (outer.family !== family) return false;
  const shift = BigInt((family === 4 ? 32 : 128) - outer.prefix);
  return value >> shift === outer.value >> shift;
}

/** IPv4-mapped and NAT64 addresses carry an IPv4 address, and are judged by it. */
export function embedded(address: Address): Address {
  if (!contains(V4_MAPPED, address) && !contains(NAT64, address)) return address;
  return { family: 4, value: address.value & 0xffff_ffffn };
}
