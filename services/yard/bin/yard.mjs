#!/usr/bin/env node
// The `yard` command. Checks the Node version before anything is imported that would fail on an old one.
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(
    `yard needs Node 22.19 or newer, this is ${process.versions.node}: use "npx yard" in the checkout, which runs the pinned one\n`,
  );
  process.exit(2);
}
await import('../dist/main.js');
