import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

/** One key of a values.yaml: where it is, what it is set to, and the words of its `# --` comment. */
export interface ValuesKey {
  path: string[];
  value: unknown;
  text: string;
}

/** The keys of a values.yaml in their order, sections (`# -- ` is missing) too. Comments are read by line: block style only. */
export function valuesKeys(file: string): ValuesKey[] {
  const source = readFileSync(file, 'utf8');
  const tree: unknown = parse(source);
  const keys: ValuesKey[] = [];
  const stack: { indent: number; key: string }[] = [];
  let comment: string[] = [];
  for (const line of source.split('\n')) {
    const remark = /^\s*# ?(.*)$/.exec(line);
    if (remark) {
      comment.push(remark[1]!);
      continue;
    }
    const found = /^(\s*)([A-Za-z][\w-]*):/.exec(line);
    if (found) {
      const indent = found[1]!.length;
      while (stack.length > 0 && stack.at(-1)!.indent >= indent) stack.pop();
      stack.push({ indent, key: found[2]! });
      const path = stack.map(({ key }) => key);
      const said = comment.join(' ');
      const described =
        said.startsWith('-- ') || keys.some(({ path: over }) => over.join('.') === path.slice(0, -1).join('.'));
      if (described || stack.length === 1) keys.push({ path, value: at(tree, path), text: said.replace(/^-- /, '') });
    }
    comment = [];
  }
  return keys;
}

function at(tree: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], tree);
}
