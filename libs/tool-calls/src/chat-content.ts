import { type ContentPart } from '@yardmaster/contracts';

/** The content of a plain message with `change` applied to each of its texts. */
export function chatContent(content: string | ContentPart[], change: (text: string) => string): string | ContentPart[] {
  if (typeof content === 'string') return change(content);
  return content.map((part) => (part.type === 'text' ? { ...part, text: change(part.text) } : part));
}
