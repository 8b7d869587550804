import { ConfigError, loadConfig } from '@yardmaster/service-kit';
import { expect, it } from 'vitest';
import { ExecutorFilesConfig } from './config.js';
import { prepareJournal } from './executor-files.module.js';

const mistakes = (env: Record<string, string>) => {
  try {
    loadConfig(ExecutorFilesConfig, env);
    return [];
  } catch (error) {
    return (error as ConfigError).mistakes;
  }
};

it('only the folder of the workspaces must be given', () => {
  expect(mistakes({ YM_WORKSPACES: '/w' })).toEqual([]);
  expect(mistakes({})).toEqual([expect.stringMatching(/^YM_WORKSPACES: it must be the folder/)]);
});

it.each([
  ['YM_EXECUTOR_FILES_SLOTS', '0'],
  ['YM_EXECUTOR_FILES_MAX_READ_BYTES', '-1'],
  ['YM_EXECUTOR_FILES_MAX_WRITE_BYTES', '1e12'],
  ['YM_EXECUTOR_FILES_MAX_EDIT_BYTES', 'much'],
  ['YM_EXECUTOR_FILES_QUOTA_BYTES', '-5'],
  ['YM_EXECUTOR_FILES_QUOTA_FILES', '1.5'],
  ['YM_EXECUTOR_FILES_JOURNAL_CALLS', '3'],
  ['YM_EXECUTOR_FILES_SEARCH_HITS', '0'],
  ['YM_EXECUTOR_FILES_RIPGREP', 'bin/rg'],
  ['YM_EXECUTOR_FILES_SYNTAX_GATE', 'perhaps'],
])('%s=%s is refused with its name', (name, value) => {
  expect(mistakes({ YM_WORKSPACES: '/w', [name]: value })).toEqual([expect.stringMatching(new RegExp(`^${name}: `))]);
});

it('a folder of the workspaces that is not there is told before any call', async () => {
  await expect(prepareJournal('/nowhere/at/all')).rejects.toThrow(/^YM_WORKSPACES: the folder must exist.*ENOENT/);
});
