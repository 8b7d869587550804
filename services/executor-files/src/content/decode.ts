/** A file's bytes as text, with the encoding they were read as; or that they are none. */
export type Decoded =
  | { kind: 'text'; text: string; encoding: 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252'; bom: boolean }
  | { kind: 'binary' };

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The text of bytes that are valid UTF-8 without NUL, a leading U+FEFF included; undefined for all others. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Tells text from binary, and UTF-8 from the older encodings. The text comes without a byte order mark. */
export function decode(bytes: Uint8Array): Decoded {
  const utf16 = utf16Of(bytes);
  if (utf16 !== undefined) {
    try {
      return { kind: 'text', text: new TextDecoder(utf16, { fatal: true }).decode(bytes), encoding: utf16, bom: true };
    } catch {
      return { kind: 'binary' };
    }
  }
  const text = decodeUtf8(bytes);
  if (text !== undefined) {
    const bom = text.startsWith('\uFEFF');
    return { kind: 'text', text: bom ? text.slice(1) : text, encoding: 'utf-8', bom };
  }
  if (bytes.includes(0) || hasControl(bytes)) return { kind: 'binary' };
  return { kind: 'text', text: new TextDecoder('windows-1252').decode(bytes), encoding: 'windows-1252', bom: false };
}

function utf16Of(bytes: Uint8Array): 'utf-16le' | 'utf-16be' | undefined {
  if (bytes.length % 2 !== 0) return undefined;
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  return undefined;
}

/** Control characters that no text has: all but tab, line ends, form feed, backspace, bell and escape. */
function hasControl(bytes: Uint8Array): boolean {
  // A callback for each byte would hold up other calls in a large file.
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte < 32 && (byte < 7 || (byte > 13 && byte !== 27))) return true;
  }
  return false;
}
