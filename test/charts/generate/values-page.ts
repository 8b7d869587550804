import { valuesKeys } from './values-tree.ts';

const cell = (text: string) => text.replaceAll('|', '\\|');

/** docs/values.md: every key of both charts with its default. */
export function valuesPage(charts: { name: string; file: string; about: string }[]): string {
  const lines = [
    '# Values of the charts',
    '',
    'Made from the comments of `values.yaml` by `npx node test/charts/generate/run.ts`. How to install: [install.md](install.md).',
  ];
  for (const { name, file, about } of charts) {
    lines.push('', `## charts/${name}`, '', about, '', '| key | default | |', '| --- | --- | --- |');
    for (const { path, value, text } of valuesKeys(file)) {
      const section =
        text === '' ||
        (typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0);
      if (section && text === '') continue;
      const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
      const shown = section && isMap && path.length === 1 ? '' : `\`${JSON.stringify(value)}\``;
      lines.push(`| \`${path.join('.')}\` | ${cell(shown)} | ${cell(text)} |`);
    }
  }
  return `${lines.join('\n')}\n`;
}
