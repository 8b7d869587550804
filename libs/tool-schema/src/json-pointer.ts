/** One more step of a JSON pointer (RFC 6901), escaped. */
export function pointerTo(pointer: string, key: string | number): string {
  const plain = typeof key === 'number' || !(key.includes('~') || key.includes('/'));
  return `${pointer}/${plain ? key : key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/** The keys of a JSON pointer, unescaped. */
export function pointerKeys(pointer: string): string[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}
