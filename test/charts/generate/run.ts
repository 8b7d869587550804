// Writes the files that are made from others. After a change of values.yaml or of the table of logins.
import { writeFileSync } from 'node:fs';
import { generatedFiles, root } from './files.ts';

for (const [path, text] of await generatedFiles()) {
  writeFileSync(`${root}${path}`, text);
  console.log(path);
}
