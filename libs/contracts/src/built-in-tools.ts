/** May a call run again after a crash? `unsafe` never starts twice. */
export type Effect = 'read' | 'idempotent' | 'unsafe';
/** What a call touches; approval policies speak of these. */
export type ToolCategory = 'read' | 'write' | 'execute' | 'network';

/** A tool that comes with Yardmaster: what the registry registers and the executor of its kind runs. */
export interface BuiltInTool {
  name: string;
  description: string;
  kind: 'shell' | 'files' | 'meta';
  effect: Effect;
  category: ToolCategory;
  timeoutMs: number;
  /** JSON Schema (2020-12) of the arguments. */
  parameters: Record<string, unknown>;
  searchHints?: string[];
}

const object = (properties: Record<string, unknown>, required: string[]) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});
const path = (description: string) => ({ type: 'string', minLength: 1, maxLength: 4096, description });
const sha256 = {
  type: 'string',
  pattern: '^[0-9a-f]{64}$',
  description: 'Refuse unless the file has this SHA-256 (hex), as file_read reported it.',
};
const lineHint = { type: 'integer', minimum: 1, description: 'About which line the old text starts.' };
const oldString = {
  type: 'string',
  maxLength: 1_000_000,
  description:
    'The text to replace, as it stands in the file, with enough context to be unique. Empty only to create a file.',
};
const minConfidence = {
  type: 'number',
  minimum: 0.8,
  maximum: 1,
  description: 'Refuse unless the place is at least this sure. Default 0.8.',
};
const dryRun = { type: 'boolean', description: 'Only show what the edit would change.' };
const newString = { type: 'string', maxLength: 1_000_000, description: 'The text to put there.' };

/** Longest command in characters, here-documents included: a document of 300 kB is ordinary work. */
export const MOST_COMMAND_CHARS = 512 * 1024;

/** The built-in tools by their public names (README, "Built-in tools"). Meta tools are registered with two underscores. */
export const BUILT_IN_TOOLS: readonly BuiltInTool[] = [
  {
    name: 'shell_run',
    description:
      'Runs a bash command in the workspace (/workspace), in a sandbox, and returns its output and exit code. There is no network and no keyboard input. Each command starts fresh: folder, variables, $HOME and /tmp are not kept from one command to the next; files in the workspace are. Everything that a command started ends with it; set background to start a server or a long job.',
    kind: 'shell',
    effect: 'unsafe',
    category: 'execute',
    timeoutMs: 600_000,
    parameters: object(
      {
        command: {
          type: 'string',
          minLength: 1,
          maxLength: MOST_COMMAND_CHARS,
          description: 'The command line, as for bash -c.',
        },
        cwd: path('Folder to run in, relative to the workspace. Default: the workspace itself.'),
        timeout_s: {
          type: 'integer',
          minimum: 1,
          maximum: 600,
          description: 'Seconds after which the command is ended. Default 120.',
        },
        background: { type: 'boolean', description: 'Return at once with a job id; see shell_job.' },
      },
      ['command'],
    ),
    searchHints: ['terminal', 'bash', 'execute', 'run tests', 'process'],
  },
  {
    name: 'shell_job',
    description: 'Looks at or stops a background command that shell_run started.',
    kind: 'shell',
    effect: 'idempotent',
    category: 'execute',
    timeoutMs: 30_000,
    parameters: object(
      {
        job: { type: 'string', minLength: 1, maxLength: 100, description: 'The id that shell_run returned.' },
        action: { enum: ['status', 'output', 'stop'], description: 'What to do.' },
        after: { type: 'integer', minimum: 0, description: 'With output: read on from this position.' },
      },
      ['job', 'action'],
    ),
  },
  {
    name: 'file_read',
    description: 'Reads a text file of the workspace with line numbers.',
    kind: 'files',
    effect: 'read',
    category: 'read',
    timeoutMs: 30_000,
    parameters: object(
      {
        path: path('Path of the file, relative to the workspace.'),
        offset: { type: 'integer', minimum: 1, description: 'First line, counted from 1. Default 1.' },
        limit: { type: 'integer', minimum: 1, maximum: 10_000, description: 'How many lines. Default 2000.' },
      },
      ['path'],
    ),
    searchHints: ['open', 'show', 'cat', 'view'],
  },
  {
    name: 'file_write',
    description: 'Writes a whole file of the workspace, atomically; folders are made as needed.',
    kind: 'files',
    effect: 'idempotent',
    category: 'write',
    timeoutMs: 30_000,
    parameters: object(
      {
        path: path('Path of the file, relative to the workspace.'),
        content: { type: 'string', maxLength: 10_000_000, description: 'The whole new content.' },
        expected_sha256: sha256,
      },
      ['path', 'content'],
    ),
    searchHints: ['create', 'save'],
  },
  {
    name: 'file_edit',
    description:
      'Replaces a piece of text in a file. The old text need not match to the letter, but must mean one place.',
    kind: 'files',
    effect: 'idempotent',
    category: 'write',
    timeoutMs: 60_000,
    parameters: object(
      {
        path: path('Path of the file, relative to the workspace.'),
        old_string: oldString,
        new_string: newString,
        replace_all: { type: 'boolean', description: 'Replace every occurrence.' },
        line_hint: lineHint,
        expected_sha256: sha256,
        min_confidence: minConfidence,
        dry_run: dryRun,
      },
      ['path', 'old_string', 'new_string'],
    ),
    searchHints: ['change', 'patch', 'replace', 'modify'],
  },
  {
    name: 'file_multi_edit',
    description: 'Makes several edits in one file, all of them or none.',
    kind: 'files',
    effect: 'idempotent',
    category: 'write',
    timeoutMs: 60_000,
    parameters: object(
      {
        path: path('Path of the file, relative to the workspace.'),
        edits: {
          type: 'array',
          minItems: 1,
          maxItems: 100,
          items: object(
            { old_string: oldString, new_string: newString, replace_all: { type: 'boolean' }, line_hint: lineHint },
            ['old_string', 'new_string'],
          ),
        },
        expected_sha256: sha256,
        min_confidence: minConfidence,
        dry_run: dryRun,
      },
      ['path', 'edits'],
    ),
  },
  {
    name: 'file_list',
    description: 'Lists files and folders of the workspace.',
    kind: 'files',
    effect: 'read',
    category: 'read',
    timeoutMs: 30_000,
    parameters: object(
      {
        path: path('Folder, relative to the workspace. Default: the workspace itself.'),
        depth: { type: 'integer', minimum: 1, maximum: 20, description: 'How many levels. Default 2.' },
      },
      [],
    ),
    searchHints: ['directory', 'ls', 'tree', 'folder'],
  },
  {
    name: 'file_search',
    description: 'Searches the text of files in the workspace; ignores what .gitignore names.',
    kind: 'files',
    effect: 'read',
    category: 'read',
    timeoutMs: 60_000,
    parameters: object(
      {
        pattern: { type: 'string', minLength: 1, maxLength: 1000, description: 'Text to find.' },
        path: path('Folder or file to search, relative to the workspace.'),
        regex: { type: 'boolean', description: 'Is the pattern a regular expression?' },
      },
      ['pattern'],
    ),
    searchHints: ['grep', 'find', 'ripgrep'],
  },
  {
    name: 'file_move',
    description: 'Moves or renames a file or folder of the workspace.',
    kind: 'files',
    effect: 'idempotent',
    category: 'write',
    timeoutMs: 30_000,
    parameters: object(
      {
        from: path('Where it is.'),
        to: path('Where it goes.'),
        overwrite: { type: 'boolean', description: 'Replace what is there.' },
      },
      ['from', 'to'],
    ),
    searchHints: ['rename', 'mv'],
  },
  {
    name: 'file_delete',
    description: 'Deletes a file or, with recursive, a folder of the workspace.',
    kind: 'files',
    effect: 'idempotent',
    category: 'write',
    timeoutMs: 30_000,
    parameters: object(
      {
        path: path('What to delete.'),
        recursive: { type: 'boolean', description: 'Delete a folder with all in it.' },
        expected_sha256: sha256,
      },
      ['path'],
    ),
    searchHints: ['remove', 'rm'],
  },
  {
    name: 'file_stat',
    description: 'Tells size, type, time and SHA-256 of a file of the workspace.',
    kind: 'files',
    effect: 'read',
    category: 'read',
    timeoutMs: 30_000,
    parameters: object({ path: path('What to look at.') }, ['path']),
  },
  {
    name: '__tool_search',
    description: 'Finds tools by what they do. Returns names and descriptions; a found tool can be called at once.',
    kind: 'meta',
    effect: 'read',
    category: 'read',
    timeoutMs: 10_000,
    parameters: object(
      { query: { type: 'string', minLength: 1, maxLength: 500 }, limit: { type: 'integer', minimum: 1, maximum: 20 } },
      ['query'],
    ),
  },
  {
    name: '__tool_describe',
    description: 'Shows the full definition of one tool.',
    kind: 'meta',
    effect: 'read',
    category: 'read',
    timeoutMs: 10_000,
    parameters: object({ name: { type: 'string', minLength: 1, maxLength: 128 } }, ['name']),
  },
];
