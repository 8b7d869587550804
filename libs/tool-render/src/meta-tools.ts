import { type ToolView } from './tool-view.js';

/** The one function of the dispatcher form: whatever the registry holds, the prefix shows only this. */
export const CALL_MCP: ToolView = {
  name: 'call_mcp',
  description: 'Calls one tool of a connected server.',
  parameters: {
    type: 'object',
    properties: {
      server: { type: 'string', description: 'Name of the server; local for built-in tools' },
      tool: { type: 'string', description: 'Name of the tool on that server' },
      args: { type: 'object' },
    },
    required: ['server', 'tool', 'args'],
  },
};

/** Registered as `__tool_search`. */
export const TOOL_SEARCH: ToolView = {
  name: 'tool_search',
  description:
    'Finds tools that are not loaded yet and loads the best matches. Their definitions come back in the result.',
  parameters: {
    type: 'object',
    properties: {
      query: { type: 'string', description: 'Key words, or select:name1,name2 to load by exact name' },
      limit: { type: 'integer', description: 'How many to load at most', default: 5, minimum: 1, maximum: 20 },
    },
    required: ['query'],
    additionalProperties: false,
  },
};

/** Registered as `__tool_describe`. */
export const TOOL_DESCRIBE: ToolView = {
  name: 'tool_describe',
  description: 'Loads one tool by its exact name.',
  parameters: {
    type: 'object',
    properties: { name: { type: 'string' } },
    required: ['name'],
    additionalProperties: false,
  },
};

/** The names under which the registry holds the meta tools; a model sees them without the underscores. */
export const META_TOOL_NAMES: Readonly<Record<string, string>> = {
  tool_search: '__tool_search',
  tool_describe: '__tool_describe',
};

/** How many tools a search loads unless the model says otherwise, and at most. */
export const SEARCH_LIMIT = { default: 5, max: 20 } as const;

/** Both, as they are shown. */
export const META_TOOLS: readonly ToolView[] = [TOOL_SEARCH, TOOL_DESCRIBE];
