import { inflateRawSync } from 'node:zlib';

/** One file out of a zip archive. Throws when it is not there or packed in another way than deflate. */
export function extract(archive: Buffer, name: string): Buffer {
  let end = archive.length - 22;
  while (end >= 0 && archive.readUInt32LE(end) !== 0x06054b50) end--;
  if (end < 0) throw new Error('no zip archive');
  let at = archive.readUInt32LE(end + 16);
  for (let left = archive.readUInt16LE(end + 10); left > 0; left--) {
    const [method, size, nameLength, extra, comment, local] = [
      archive.readUInt16LE(at + 10),
      archive.readUInt32LE(at + 20),
      archive.readUInt16LE(at + 28),
      archive.readUInt16LE(at + 30),
      archive.readUInt16LE(at + 32),
      archive.readUInt32LE(at + 42),
    ];
    if (archive.toString('utf8', at + 46, at + 46 + nameLength) === name) {
      // The lengths of the local header are its own.
      const from = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
      const packed = archive.subarray(from, from + size);
      if (method === 0) return packed;
      if (method === 8) return inflateRawSync(packed);
      throw new Error(`${name} is packed by method ${method}`);
    }
    at += 46 + nameLength + extra + comment;
  }
  throw new Error(`the archive has no ${name}`);
}
