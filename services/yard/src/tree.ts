import type { CommandSpec, FlagSpec, Tree } from './cli/command.js';

const STATES = [
  'queued',
  'running',
  'waiting_approval',
  'cancelling',
  'completed',
  'failed',
  'cancelled',
  'incomplete',
];
const ROLES = ['runs:read', 'runs:write', 'tools:admin', 'tenant:admin'];

const RUN = { name: 'RUN', help: 'id of a run, or any six or more characters of it', complete: 'run' } as const;
const CONVERSATION = {
  name: 'CONVERSATION',
  help: 'id of a conversation, or any six or more characters of it',
  complete: 'conversation',
} as const;
const MCP_SERVER = { name: 'ID', help: 'id of an MCP server' } as const;
const TOOL = { name: 'TOOL', help: 'name of a tool', complete: 'tool' } as const;

const LIST_FLAGS: Record<string, FlagSpec> = {
  limit: { value: 'N', type: 'whole', help: 'at most N items (20)' },
  all: { help: 'everything there is' },
};

/** What `ask` and `run start` send. */
const RUN_FLAGS: Record<string, FlagSpec> = {
  agent: { value: 'NAME', help: 'an agent of the configuration' },
  model: { value: 'MODEL', help: 'a model (yard model list)' },
  system: { value: 'TEXT', help: 'system prompt' },
  conversation: { value: 'ID', help: 'go on in this conversation' },
  tool: { value: 'NAME', many: true, help: 'a tool that the run may use; none given: all of the agent' },
  'tool-dispatcher': { value: 'HOW', choices: ['auto', 'native', 'xml'], help: 'how tool calls are written' },
  workspace: { value: 'NAME', help: 'folder that file and shell tools work in' },
  'on-busy': { value: 'WHAT', choices: ['enqueue', 'reject', 'interrupt'], help: 'when the conversation is busy' },
  'max-iterations': { value: 'N', type: 'whole', help: 'most steps' },
  'max-tokens': { value: 'N', type: 'whole', help: 'most tokens of the whole run' },
  'max-cost': { value: 'USD', type: 'number', help: 'most cost of the whole run' },
  'run-timeout': {
    value: 'SECONDS',
    type: 'whole',
    help: 'longest time of the run (--timeout is how long to wait for it)',
  },
  metadata: { value: 'KEY=VALUE', many: true, help: 'kept with the run' },
  'idempotency-key': { value: 'KEY', help: 'the same key and request start one run, however often they are sent' },
};

const TASK = { name: 'TEXT', help: 'the task, or - for stdin', many: true } as const;

const STACK_FLAGS: Record<string, FlagSpec> = {
  config: { value: 'FILE', help: 'providers, routing and agents (docs/configuration.md)' },
  provider: { value: 'NAME', help: 'claude, openai, …, llamacpp, demo; its key is read from the environment' },
};

const logs: CommandSpec = {
  summary: 'log lines of the local stack, in time order',
  args: [{ name: 'SERVICE', help: 'only of these services', optional: true, many: true, complete: 'service' }],
  flags: {
    run: { value: 'RUN', help: 'lines about this run' },
    level: { value: 'LEVEL', choices: ['debug', 'info', 'warn', 'error'], help: 'this level and worse' },
    lines: { short: 'n', value: 'N', type: 'whole', help: 'last N lines (100); 0 is all' },
    follow: { short: 'f', help: 'go on with what comes' },
  },
  examples: ['yard logs router -f', 'yard logs --level warn', 'yard logs --run 7c41e9 -o jsonl'],
  load: async () => (await import('./commands/logs.js')).logs,
};

/** Every command; what is not here does not exist. */
export const TREE: Tree = {
  dev: {
    summary: 'the local stack of this checkout',
    verbs: {
      up: {
        summary: 'bring the local stack up; without --detach it stays in the foreground',
        flags: {
          detach: { help: 'return when it is ready' },
          port: { value: 'PORT', type: 'whole', help: 'port of the API (4400, or the next free one)' },
          ...STACK_FLAGS,
        },
        examples: [
          'yard dev up --detach',
          'yard dev up --config my.yaml',
          'LLAMA_URL=http://10.0.0.7:8080 yard dev up',
        ],
        load: async () => (await import('./commands/dev.js')).up,
      },
      status: { summary: 'what runs', load: async () => (await import('./commands/dev.js')).status },
      logs,
      down: { summary: 'end it', load: async () => (await import('./commands/dev.js')).down },
      reset: {
        summary: 'end it and remove all that it has stored',
        destroys: 'ends the local stack and removes its runs, conversations, workspaces and logs',
        load: async () => (await import('./commands/dev.js')).reset,
      },
    },
  },
  ask: {
    summary: 'start a run, show its steps, print the answer',
    args: [TASK],
    flags: RUN_FLAGS,
    notes:
      'Steps go to stderr, the answer alone to stdout. A call that needs approval is asked about on a terminal; elsewhere the\nexit code is 13 and the command that approves is printed. Ctrl-C leaves the run going.',
    examples: [
      'yard ask "list the files here"',
      'git diff | yard ask - --system "Review this change"',
      'yard ask --conversation 7c41e9 "and now in French"',
    ],
    load: async () => (await import('./commands/ask.js')).ask,
  },
  run: {
    summary: 'runs: one task of one agent each',
    verbs: {
      start: {
        summary: 'start a run and return at once',
        args: [TASK],
        flags: RUN_FLAGS,
        examples: ['id=$(yard run start -o name "run the tests")', 'yard run start --idempotency-key order-17 "…"'],
        load: async () => (await import('./commands/ask.js')).start,
      },
      list: {
        summary: 'runs, newest first',
        flags: {
          state: { value: 'STATE', choices: STATES, help: 'only in this state' },
          agent: { value: 'NAME', help: 'only of this agent' },
          conversation: { value: 'ID', help: 'only of this conversation' },
          since: { value: 'AGE', help: 'not older than 90s, 15m, 2h, 3d, or a time such as 2026-11-29T18:00Z' },
          ...LIST_FLAGS,
        },
        examples: ['yard run list --state failed --since 1h', 'yard run list --all -o name | wc -l'],
        load: async () => (await import('./commands/run.js')).list,
      },
      get: { summary: 'one run', args: [RUN], load: async () => (await import('./commands/run.js')).get },
      watch: {
        summary: 'follow a run to its end; Ctrl-C leaves it going',
        args: [RUN],
        flags: { after: { value: 'N', type: 'whole', help: 'only events after number N' } },
        notes: 'The exit code tells how the run ended. -o jsonl prints the events; stored ones have a growing id.',
        load: async () => (await import('./commands/run.js')).watch,
      },
      cancel: {
        summary: 'cancel a run and the command that it runs',
        args: [RUN],
        flags: { reason: { value: 'TEXT', help: 'kept with the run' } },
        load: async () => (await import('./commands/run.js')).cancel,
      },
      result: {
        summary: 'wait for the end of a run and print its answer',
        args: [RUN],
        load: async () => (await import('./commands/run.js')).result,
      },
    },
  },
  approval: {
    summary: 'calls that a person has to decide on',
    verbs: {
      list: {
        summary: 'calls that wait, of one run or of all',
        args: [{ ...RUN, optional: true }],
        load: async () => (await import('./commands/approval.js')).list,
      },
      approve: {
        summary: 'let a call run',
        args: [RUN, { name: 'CALL', help: 'which call, where several wait', optional: true }],
        flags: {
          remember: {
            value: 'HOW_LONG',
            choices: ['call', 'session', 'always'],
            help: 'also for the same call later',
          },
          reason: { value: 'TEXT', help: 'kept with the decision' },
        },
        load: async () => (await import('./commands/approval.js')).approve,
      },
      deny: {
        summary: 'do not let a call run; the model reads why',
        args: [RUN, { name: 'CALL', help: 'which call, where several wait', optional: true }],
        flags: { reason: { value: 'TEXT', help: 'for the model' } },
        load: async () => (await import('./commands/approval.js')).deny,
      },
    },
  },
  conversation: {
    summary: 'histories that runs go on with',
    verbs: {
      list: {
        summary: 'conversations, newest first',
        flags: LIST_FLAGS,
        load: async () => (await import('./commands/conversation.js')).list,
      },
      get: {
        summary: 'one conversation',
        args: [CONVERSATION],
        load: async () => (await import('./commands/conversation.js')).get,
      },
      messages: {
        summary: 'its messages, oldest first',
        args: [CONVERSATION],
        load: async () => (await import('./commands/conversation.js')).messages,
      },
      compact: {
        summary: 'let a summary stand for its beginning',
        args: [CONVERSATION],
        flags: {
          'up-to': { value: 'SEQ', type: 'whole', help: 'last message that the summary stands for (needed)' },
          summary: { value: 'TEXT', help: 'the summary, or - for stdin; a model writes it when it is absent' },
          model: { value: 'MODEL', help: 'model that writes it' },
        },
        load: async () => (await import('./commands/conversation.js')).compact,
      },
      delete: {
        summary: 'delete a conversation that no run works on',
        args: [CONVERSATION],
        destroys: 'deletes the conversation $1 with its messages',
        load: async () => (await import('./commands/conversation.js')).remove,
      },
    },
  },
  tool: {
    summary: 'the registry of tools',
    verbs: {
      list: {
        summary: 'tools, or those that do what --search says',
        flags: { search: { value: 'WORDS', help: 'what the tool should do' }, ...LIST_FLAGS },
        load: async () => (await import('./commands/tool.js')).list,
      },
      get: { summary: 'one tool', args: [TOOL], load: async () => (await import('./commands/tool.js')).get },
      put: {
        summary: 'register a tool, or a new version of it',
        args: [TOOL, { name: 'FILE', help: 'its definition as JSON or YAML, or - for stdin' }],
        notes:
          'The definition has: description, parameters (JSON Schema), kind (executor), effect (read, idempotent, unsafe),\ncategory (read, write, execute, network); and may have timeout_ms, state, aliases, search_hints, always_ask, dispatch,\nannotations, output_schema. What yard tool get -o json prints is taken too: edit it and put it back.',
        examples: ['yard tool get crm_update -o json > tool.json', 'yard tool put crm_update tool.json'],
        load: async () => (await import('./commands/tool.js')).put,
      },
      delete: {
        summary: 'remove a tool',
        args: [TOOL],
        destroys: 'removes the tool $1',
        load: async () => (await import('./commands/tool.js')).remove,
      },
      test: {
        summary: 'would these arguments be accepted, and what would they become?',
        args: [TOOL, { name: 'ARGUMENTS', help: 'a JSON object, or - for stdin' }],
        examples: [`yard tool test file_read '{"path": "README.md"}'`],
        load: async () => (await import('./commands/tool.js')).test,
      },
    },
  },
  mcp: {
    summary: 'MCP servers whose tools runs can use',
    verbs: {
      list: {
        summary: 'servers: state, and how many tools are registered and left out',
        flags: LIST_FLAGS,
        load: async () => (await import('./commands/mcp.js')).list,
      },
      get: {
        summary: 'one server, with its tools and what was left out and why',
        args: [MCP_SERVER],
        load: async () => (await import('./commands/mcp.js')).get,
      },
      add: {
        summary: 'add a server of the tenant (streamable HTTP), or change it',
        args: [MCP_SERVER, { name: 'URL', help: 'its address, with no key in it' }],
        flags: {
          credential: { value: 'NAME', help: 'credential of this tenant, as the operator has named it' },
          category: {
            value: 'CATEGORY',
            choices: ['read', 'write', 'execute', 'network'],
            help: 'what its tools do (network)',
          },
          'call-timeout': { value: 'SECONDS', type: 'whole', help: 'time for one call (60)' },
        },
        notes:
          'Waits until the server has been listed once. Servers over stdio, and addresses inside, are named by whoever operates\nthis Yardmaster: mcp_servers in its configuration.',
        examples: ['yard mcp add crm https://mcp.example.com/mcp --credential crm'],
        load: async () => (await import('./commands/mcp.js')).add,
      },
      remove: {
        summary: 'remove a server of the tenant and its tools',
        args: [MCP_SERVER],
        destroys: 'removes the MCP server $1 and its tools',
        load: async () => (await import('./commands/mcp.js')).remove,
      },
      test: {
        summary: 'connect now and list anew; the exit code is 0 when the server is ready',
        args: [MCP_SERVER],
        load: async () => (await import('./commands/mcp.js')).test,
      },
    },
  },
  model: {
    summary: 'models',
    verbs: {
      list: {
        summary: 'models that requests may name',
        load: async () => (await import('./commands/provider.js')).models,
      },
    },
  },
  pod: {
    summary: 'llama.cpp pods that the fleet found (in Kubernetes)',
    verbs: {
      list: {
        summary: 'pods: state with its reason, slots, context, tools',
        load: async () => (await import('./commands/fleet.js')).pods,
      },
    },
  },
  provider: {
    summary: 'who serves models',
    verbs: {
      list: {
        summary: 'providers: health, cool-downs, capabilities',
        load: async () => (await import('./commands/provider.js')).list,
      },
      plan: {
        summary: 'where would a request go, and why? Nothing is sent',
        flags: {
          model: { value: 'MODEL', help: 'the model of the request' },
          agent: { value: 'NAME', help: 'take model, providers and fallbacks from this agent' },
          provider: { value: 'NAME', many: true, help: 'these providers, in this order' },
          tool: { value: 'NAME', many: true, help: 'the request offers this tool' },
          'tool-dispatcher': { value: 'HOW', choices: ['auto', 'native', 'xml'], help: 'how tool calls are written' },
          images: { help: 'the request has images' },
        },
        load: async () => (await import('./commands/provider.js')).plan,
      },
    },
  },
  executor: {
    summary: 'who runs the calls of a kind',
    verbs: {
      list: {
        summary: 'executors that the fleet scales (in Kubernetes): pods, calls, and the last decision with its reason',
        load: async () => (await import('./commands/fleet.js')).executors,
      },
      add: {
        summary: 'queue, account and login for executors of your own, in the local stack',
        args: [{ name: 'KIND', help: 'what its tools are of, such as crm' }],
        notes:
          'A stack that runs has them at once, one that does not when it starts. Executors of an installation are declared in\nthe values of the chart, or with --executors of yard setup.',
        examples: ['yard executor add crm', 'yard executor add weather -o json'],
        load: async () => (await import('./commands/executor.js')).add,
      },
    },
  },
  key: {
    summary: 'API keys of the tenant (role tenant:admin)',
    verbs: {
      create: {
        summary: 'make a key; its text is shown this once',
        args: [{ name: 'NAME', help: 'what it is for' }],
        flags: {
          role: { value: 'ROLE', many: true, choices: ROLES, help: 'what it may do (runs:read and runs:write)' },
          'expires-in': { value: 'AGE', help: 'such as 12h or 90d; without it the key does not expire' },
        },
        load: async () => (await import('./commands/key.js')).create,
      },
      list: { summary: 'keys, without their secrets', load: async () => (await import('./commands/key.js')).list },
      revoke: {
        summary: 'end a key',
        args: [{ name: 'KEY', help: 'its id, or six or more characters of it' }],
        destroys: 'ends the key $1 for good',
        load: async () => (await import('./commands/key.js')).revoke,
      },
    },
  },
  tenant: {
    summary: 'what the tenant of the key uses and may use',
    verbs: {
      usage: {
        summary: 'requests, tokens and cost by day of UTC',
        flags: { days: { value: 'N', type: 'whole', help: 'so many days, today included (7)' } },
        load: async () => (await import('./commands/tenant.js')).usage,
      },
      quota: {
        summary: 'show the quotas, or change those that are given (role tenant:admin)',
        flags: {
          'tokens-per-day': { value: 'N', help: 'most tokens in a day of UTC, or none' },
          'cost-per-day': { value: 'USD', help: 'most cost in a day of UTC, or none' },
          'requests-per-minute': { value: 'N', help: 'most requests to the API, or none' },
        },
        examples: ['yard tenant quota --cost-per-day 5', 'yard tenant quota --tokens-per-day none'],
        load: async () => (await import('./commands/tenant.js')).quota,
      },
    },
  },
  queue: {
    summary: 'streams and queues of the local stack',
    verbs: {
      list: { summary: 'how much waits where', load: async () => (await import('./commands/queue.js')).list },
    },
  },
  logs,
  doctor: {
    summary: 'check this machine and the stack, one named check a line',
    notes: 'Exit code 0 when nothing failed. Checks that need the local stack are skipped for other addresses.',
    examples: ['yard doctor', 'yard doctor -o json'],
    load: async () => (await import('./commands/doctor.js')).doctor,
  },
  explain: {
    summary: 'what an error code means and what to do; works offline',
    args: [{ name: 'CODE', help: 'such as YM-LLM-EXHAUSTED; none lists all', optional: true, complete: 'code' }],
    load: async () => (await import('./commands/explain.js')).explain,
  },
  context: {
    summary: 'saved addresses and keys',
    verbs: {
      list: {
        summary: 'contexts, and which one is used',
        load: async () => (await import('./commands/context.js')).list,
      },
      use: {
        summary: 'use a context from now on; "local" is the stack of this checkout',
        args: [{ name: 'NAME', help: 'name of a context' }],
        load: async () => (await import('./commands/context.js')).use,
      },
      add: {
        summary: 'save an address (--api-url) and where its key is',
        args: [{ name: 'NAME', help: 'a name for it' }],
        flags: { 'key-file': { value: 'FILE', help: 'file with the key; - reads the key from stdin and keeps it' } },
        examples: ['yard context add prod --api-url https://ym.example.com --key-file ~/.keys/ym'],
        load: async () => (await import('./commands/context.js')).add,
      },
      show: {
        summary: 'which address would be used now, and which setting says so',
        load: async () => (await import('./commands/context.js')).show,
      },
    },
  },
  completion: {
    summary: 'completion for a shell',
    args: [{ name: 'SHELL', help: 'bash' }],
    examples: ['. <(yard completion bash)'],
    load: async () => (await import('./commands/completion.js')).completion,
  },
  version: { summary: 'version of yard', load: async () => (await import('./commands/version.js')).version },
  help: {
    summary: 'help: flags, exit-codes',
    args: [{ name: 'TOPIC', help: 'flags or exit-codes', optional: true }],
    load: async () => (await import('./commands/help.js')).help,
  },
  start: {
    summary: 'what npm start does: everything up, one sample task',
    hidden: true,
    args: [{ name: 'TASK', help: 'another task than the sample', optional: true, many: true }],
    flags: {
      once: { help: 'end after the task' },
      stay: { help: 'stay up without a terminal too' },
      task: { value: 'NAME', choices: ['sample', 'broken'], help: 'broken is made to fail' },
      ...STACK_FLAGS,
    },
    load: async () => (await import('./commands/start.js')).start,
  },
  setup: {
    summary: 'what an installation does once, and at every upgrade',
    hidden: true,
    verbs: {
      files: {
        summary: 'write the servers’ configuration and a password for every login',
        flags: {
          out: { value: 'DIR', help: 'where to' },
          executors: { value: 'KINDS', help: 'executor kinds, with commas' },
          listen: { value: 'ADDRESS', help: 'where nats-server listens' },
          'store-dir': { value: 'DIR', help: 'where nats-server stores' },
          only: { value: 'SERVER', help: 'nats or redis: the files of this server alone' },
          secrets: { value: 'DIR', help: 'where the passwords are; none is made' },
          routes: { value: 'HOSTS', help: 'the servers of a NATS cluster, host:port with commas' },
          'readable-by-others': { help: 'files that servers of other users can read: 0644 in 0755, not 0600 in 0700' },
        },
        load: async () => (await import('./commands/setup.js')).files,
      },
      bootstrap: {
        summary: 'make streams, buckets, Redis functions and a first key',
        flags: {
          executors: { value: 'KINDS', help: 'executor kinds, with commas' },
          tenant: { value: 'TENANT', help: 'make a first key for it' },
          'key-file': { value: 'FILE', help: 'where that key is written' },
          'import-key': { value: 'FILE', help: 'a key that is there already, to be accepted from now on' },
          share: { value: 'N', type: 'whole', help: 'messages of one tenant in one queue' },
          replicas: { value: 'N', type: 'whole', help: 'replicas of streams' },
        },
        load: async () => (await import('./commands/setup.js')).bootstrap,
      },
    },
  },
  __complete: {
    summary: 'answers completion scripts',
    hidden: true,
    args: [{ name: 'WORDS', help: 'the words so far', optional: true, many: true }],
    load: async () => (await import('./commands/completion.js')).complete,
  },
};
