import { isDeepStrictEqual } from 'node:util';
import { type InstallPolicy, missingDependency } from '@yardmaster/executor-shell/missing-dependency';
import type { Suite } from '../suite.ts';

interface Case {
  id: string;
  exit_code: number;
  stderr: string;
  workspace_files?: string[];
  expected: { manager: string | null; package: string | null };
}

/** Which package a failed command missed, under the file's own policy. */
export const suite: Suite = function* (content) {
  const { about, cases } = content as { about: InstallPolicy; cases: Case[] };
  for (const { id, exit_code: exitCode, stderr, workspace_files: workspaceFiles, expected } of cases) {
    const found = missingDependency({ exitCode, text: stderr, ...(workspaceFiles === undefined ? {} : { workspaceFiles }) }, about);
    const got = { manager: found.manager, package: found.manager === null ? null : found.package };
    const want = { manager: expected.manager, package: expected.package };
    const ok = isDeepStrictEqual(got, want);
    yield { id, ok, expected: want, got, ...(found.manager === null ? { why: found.reason } : {}) };
  }
};
