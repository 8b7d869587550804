import { RENDER_STRATEGIES, TEXT_DIALECTS } from '@yardmaster/contracts';

const RENDER = ['auto', ...RENDER_STRATEGIES] as const;
const strings = { type: 'array', items: { type: 'string', minLength: 1 }, uniqueItems: true } as const;
const chains = { type: 'object', additionalProperties: strings } as const;
const positive = { type: 'integer', minimum: 1 } as const;

/** JSON Schema (2020-12) of the YAML file that YM_CONFIG names; also printed to docs/ for editors. Closed: a misspelt key is an error. */
export const platformConfigSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 'Yardmaster providers, routing and agents',
  type: 'object',
  additionalProperties: false,
  properties: {
    providers: {
      type: 'object',
      description: 'Who serves models, by a name of your choice.',
      propertyNames: { pattern: '^[a-z0-9][a-z0-9_-]{0,39}$' },
      additionalProperties: {
        type: 'object',
        additionalProperties: false,
        required: ['kind'],
        properties: {
          kind: { type: 'string', description: 'llamacpp, ollama, openai, anthropic, groq, … or custom:<url>.' },
          base_url: { type: 'string', pattern: '^https?://', description: 'Overrides the address of the kind.' },
          auth: {
            description: 'bearer, x-api-key, none, or {header: NAME}.',
            anyOf: [
              { enum: ['bearer', 'x-api-key', 'none'] },
              {
                type: 'object',
                additionalProperties: false,
                required: ['header'],
                properties: { header: { type: 'string' } },
              },
            ],
          },
          key_env: { type: 'string', description: 'Environment variable that holds the key.' },
          key_file: { type: 'string', description: 'File that holds the key.' },
          keys: {
            type: 'array',
            description: 'Several keys, rotated by health.',
            items: {
              type: 'object',
              additionalProperties: false,
              properties: { env: { type: 'string' }, file: { type: 'string' } },
              minProperties: 1,
              maxProperties: 1,
            },
          },
          models: { ...strings, description: 'Models served here; absent means any.' },
          native_tools: { type: 'boolean', description: 'Can the API take tools? Else calls are written as XML text.' },
          vision: { type: 'boolean' },
          embeddings: { type: 'boolean' },
          context: { ...positive, description: 'Tokens of the context window.' },
          max_output_tokens: positive,
          dialect: {
            enum: TEXT_DIALECTS,
            description: 'Text dialect of models without native tools: hermes, qwen_xml, harmony, …',
          },
          tool_dispatcher: { enum: ['auto', 'native', 'xml'] },
          render: { enum: RENDER },
          merge_system_into_user: { type: 'boolean' },
          reasoning_fallback: { type: 'boolean' },
          inline_think: { type: 'boolean' },
          think_prefilled: {
            type: 'boolean',
            description: 'The chat template opens <think> in the prompt: answers begin inside the reasoning.',
          },
          text_fallback: {
            type: 'boolean',
            description: 'With native tools: an answer without calls is searched for calls written as text.',
          },
          responses_fallback: { type: 'boolean' },
          timeout_s: positive,
          connect_timeout_s: positive,
          first_token_timeout_s: positive,
          idle_timeout_s: positive,
          max_connections: positive,
          weight: { type: 'integer', minimum: 0 },
          slots: { ...positive, description: 'Requests that it works on at once; more wait in it.' },
          headers: { type: 'object', additionalProperties: { type: 'string' } },
          demo: { type: 'boolean', description: 'The built-in scripted model; announced as such everywhere.' },
        },
      },
    },
    routing: {
      type: 'object',
      additionalProperties: false,
      properties: {
        default_model: { type: 'string' },
        embedding_model: { type: 'string', description: 'For vectors that the platform itself asks for.' },
        providers: strings,
        retries: { type: 'integer', minimum: 0, maximum: 10 },
        backoff_ms: { type: 'integer', minimum: 1, maximum: 10000 },
        strategy: { enum: ['priority', 'weighted', 'least-busy'] },
        model_fallbacks: chains,
      },
    },
    agents: {
      type: 'object',
      propertyNames: { pattern: '^[a-z0-9][a-z0-9_-]{0,39}$' },
      additionalProperties: {
        type: 'object',
        additionalProperties: false,
        properties: {
          model: { type: 'string' },
          providers: strings,
          model_fallbacks: chains,
          system: { type: 'string', maxLength: 100000 },
          tools: strings,
          tool_dispatcher: { enum: ['auto', 'native', 'xml'] },
          render: { enum: RENDER },
          temperature: { type: 'number', minimum: 0, maximum: 2 },
          max_output_tokens: positive,
          limits: {
            type: 'object',
            additionalProperties: false,
            properties: {
              max_iterations: positive,
              max_tokens: positive,
              max_cost_usd: { type: 'number', exclusiveMinimum: 0 },
              timeout_s: positive,
            },
          },
        },
      },
    },
    mcp_servers: {
      type: 'object',
      description: 'MCP servers whose tools every tenant sees, as <id>__<tool>.',
      propertyNames: { pattern: '^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$' },
      additionalProperties: {
        type: 'object',
        additionalProperties: false,
        oneOf: [{ required: ['url'] }, { required: ['command'] }],
        properties: {
          url: { type: 'string', pattern: '^https?://', description: 'Streamable HTTP.' },
          token_env: { type: 'string', description: 'Environment variable with the bearer token of the platform.' },
          token_file: { type: 'string' },
          credential: {
            type: 'string',
            pattern: '^[a-z0-9][a-z0-9-]{0,39}$',
            description: 'Each tenant has its own: the file <tenant>.<name> in YM_REGISTRY_MCP_CREDENTIALS.',
          },
          credentials: {
            type: 'object',
            description: 'Each tenant has its own, named one by one.',
            propertyNames: { pattern: '^[a-z0-9][a-z0-9-]{0,39}$' },
            additionalProperties: {
              type: 'object',
              additionalProperties: false,
              minProperties: 1,
              maxProperties: 1,
              properties: { env: { type: 'string', minLength: 1 }, file: { type: 'string', minLength: 1 } },
            },
          },
          command: {
            type: 'string',
            minLength: 1,
            description:
              'stdio: started by the registry in a sandbox, with only `env`. `node` is the Node of the registry.',
          },
          args: { type: 'array', items: { type: 'string' } },
          env: {
            type: 'object',
            propertyNames: { pattern: '^[A-Za-z_][A-Za-z0-9_]*$' },
            additionalProperties: { type: 'string' },
          },
          credential_env: {
            type: 'string',
            pattern: '^(?!LD_|BASH_|SANDBOX_|ENV$|PATH$|HOME$)[A-Za-z_][A-Za-z0-9_]*$',
            description: 'stdio: the variable that the credential is given in.',
          },
          sandbox: {
            type: 'object',
            additionalProperties: false,
            description: 'What the sandbox of a stdio server lets through; "{tenant}" in a path is the tenant.',
            properties: {
              network: { type: 'boolean', description: 'The network of the registry; off.' },
              read: { type: 'array', items: { type: 'string', pattern: '^/' } },
              write: { type: 'array', items: { type: 'string', pattern: '^/' } },
              memory_mb: { type: 'integer', minimum: 32, maximum: 65536, description: '512' },
              pids: { type: 'integer', minimum: 4, maximum: 4096, description: 'Processes and threads; 64' },
              open_files: { type: 'integer', minimum: 16, maximum: 65536, description: '512' },
              tmp_mb: { type: 'integer', minimum: 1, maximum: 65536, description: '64' },
            },
          },
          category: { enum: ['read', 'write', 'execute', 'network'] },
          trusted: { type: 'boolean', description: 'May its annotations make calls need less approval?' },
          timeout_s: positive,
        },
      },
    },
    mcp_egress: {
      type: 'array',
      description: 'Where tenants’ own MCP servers may be beside public addresses with https.',
      items: {
        type: 'object',
        additionalProperties: false,
        oneOf: [{ required: ['host'] }, { required: ['cidr'] }],
        properties: {
          host: { type: 'string', minLength: 1 },
          private: { type: 'boolean' },
          cidr: { type: 'string', minLength: 1 },
          http: { type: 'boolean' },
        },
      },
    },
    executors: {
      type: 'array',
      description: 'Executor kinds of your own; each gets a queue, an account and a login (local stacks).',
      items: { type: 'string', pattern: '^[a-z][a-z0-9-]{0,39}$' },
      uniqueItems: true,
    },
    approvals: {
      type: 'object',
      additionalProperties: false,
      description: 'What happens to calls by the category of their tool.',
      properties: Object.fromEntries(
        ['read', 'write', 'execute', 'network'].map((category) => [category, { enum: ['allow', 'ask', 'deny'] }]),
      ),
    },
  },
} as const;
