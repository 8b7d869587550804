/** The task that `npm start` runs, and the files that it is about: plain sh, so that any sandbox can run them. */
export const SAMPLE_TASK =
  'The test in this workspace fails. Find out why, fix the mistake, run the test again, and tell me what was wrong.';

export const SAMPLE_FILES: Readonly<Record<string, string>> = {
  'README.md': `# Prices

\`price.sh NET\` prints a price in cents with 20 % tax. \`sh test.sh\` checks it.
`,
  'price.sh': `#!/bin/sh
# Prints a net price (in cents) with 20 % tax.
net=$1
tax=$((net * 2 / 100))
echo $((net + tax))
`,
  'test.sh': `#!/bin/sh
# Checks price.sh; ends with 1 when it is wrong.
got=$(sh price.sh 1000)
if [ "$got" = 1200 ]; then
  echo "ok: price.sh 1000 prints 1200"
else
  echo "FAILED: price.sh 1000 prints $got, should print 1200"
  exit 1
fi
`,
};

/** The mistakes that the demo model knows how to mend: it is a script, not a model. */
export const KNOWN_MISTAKES: readonly { wrong: string; right: string; because: string }[] = [
  { wrong: 'net * 2 / 100', right: 'net * 20 / 100', because: 'the tax was computed with 2 % instead of 20 %' },
];
