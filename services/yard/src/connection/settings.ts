import { existsSync, readFileSync, statSync } from 'node:fs';
import { nearest } from '../cli/nearest.js';
import { UsageError } from '../cli/usage-error.js';
import { lastStack, stackFile, type StackFile, stackIn } from '../stack/checkout.js';
import { type Context, LOCAL, readContexts } from './contexts.js';

export interface Settings {
  apiUrl: string;
  apiKey: string;
  /** The setting that the address came from, for messages. */
  source: string;
  /** The local stack, where the address is its. */
  stack: StackFile | undefined;
}

/** No address to try: what was looked at, and what to do. Exit code 7. */
export class NoAddress extends Error {}

/**
 * Where the API is and with which key: flag, environment, context, the stack of this checkout. A key goes only to the
 * address that came from the same source, so that a foreign setting cannot send it elsewhere; the key of the
 * environment is the caller's own word and goes where flag or environment say.
 */
export function resolveSettings(flags: { apiUrl?: string | undefined; context?: string | undefined }): Settings {
  const environmentKey = keyOfEnvironment();
  if (flags.apiUrl !== undefined) return explicit(flags.apiUrl, '--api-url', environmentKey);
  if (flags.context !== undefined) return ofContext(flags.context, '--context');
  if (process.env['YM_API_URL']) return explicit(process.env['YM_API_URL'], 'YM_API_URL', environmentKey);
  if (process.env['YM_CONTEXT']) return ofContext(process.env['YM_CONTEXT'], 'YM_CONTEXT');
  const { current } = readContexts();
  if (current !== undefined) return ofContext(current, 'yard context use');
  return ofStack();
}

function keyOfEnvironment(): string | undefined {
  if (process.env['YM_API_KEY']) return process.env['YM_API_KEY'];
  const file = process.env['YM_API_KEY_FILE'];
  return file ? keyOfFile(file, 'YM_API_KEY_FILE') : undefined;
}

function keyOfFile(file: string, setting: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new UsageError(`${setting} names ${file}, which cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function explicit(url: string, source: string, key: string | undefined): Settings {
  const apiUrl = checkedUrl(url, source);
  if (key !== undefined) return { apiUrl, apiKey: key, source, stack: undefined };
  // The local stack's own address needs no key in the environment: it is the same place.
  const stack = trustedStack();
  if (stack !== undefined && new URL(stack.api_url).origin === new URL(apiUrl).origin)
    return { apiUrl, apiKey: stack.api_key, source, stack };
  throw new UsageError(
    `no key for ${apiUrl} (address from ${source}): set YM_API_KEY or YM_API_KEY_FILE, or save both: yard context add NAME --api-url ${apiUrl} --key-file FILE`,
  );
}

function ofContext(name: string, source: string): Settings {
  const { contexts } = readContexts();
  if (!Object.hasOwn(contexts, name)) {
    if (name === LOCAL) return ofStack();
    const near = nearest(name, [...Object.keys(contexts), LOCAL]);
    throw new UsageError(
      `there is no context "${name.slice(0, 60)}" (from ${source})${near === undefined ? '' : `, did you mean "${near}"?`}; see: yard context list`,
    );
  }
  const context: Context = contexts[name]!;
  const key =
    context.key ?? (context.key_file === undefined ? undefined : keyOfFile(context.key_file, `context ${name}`));
  if (key === undefined) throw new UsageError(`context "${name}" has no key: yard context add ${name} --key-file FILE`);
  return {
    apiUrl: checkedUrl(context.api_url, `context ${name}`),
    apiKey: key,
    source: `context "${name}"`,
    stack: undefined,
  };
}

function ofStack(): Settings {
  const stack = trustedStack();
  if (stack === undefined) throw new NoAddress(`${whyNoStack()}; start one with: npm start`);
  return { apiUrl: stack.api_url, apiKey: stack.api_key, source: stackFile(), stack };
}

function whyNoStack(): string {
  const last = lastStack();
  const where = `Cannot reach the API${last === undefined ? '' : ` at ${last.api_url}`}:`;
  const ended = last === undefined ? '' : ` (the last one stopped at ${last.stopped_at})`;
  const why = existsSync(stackFile())
    ? `the address would come from ${stackFile()}, whose process is gone`
    : `no stack of this checkout runs${ended}: there is no ${stackFile()}, and --api-url, YM_API_URL and contexts name no other address`;
  return `${where} ${why}`;
}

/** The stack's file when it is the caller's own, readable by nobody else, and leads to this machine. */
function trustedStack(): StackFile | undefined {
  const file = stackIn(stackFile());
  if (file === undefined || file.api_url === '') return undefined;
  const { uid, mode } = statSync(stackFile());
  if (process.getuid !== undefined && (uid !== process.getuid() || (mode & 0o077) !== 0))
    throw new UsageError(`${stackFile()} is not used: it must be yours and have mode 0600`);
  if (!['127.0.0.1', 'localhost', '[::1]'].includes(new URL(file.api_url).hostname))
    throw new UsageError(`${stackFile()} is not used: its api_url ${file.api_url} is not on this machine`);
  return file;
}

/** An http(s) address without credentials. */
export function checkedUrl(text: string, source: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new UsageError(
      `${source} must be an http or https address, such as http://127.0.0.1:4400 (got "${text.slice(0, 100)}")`,
    );
  if (url.username !== '' || url.password !== '')
    throw new UsageError(`${source} must not contain a user or password: keys come from files or the environment`);
  return text.replace(/\/+$/, '');
}
