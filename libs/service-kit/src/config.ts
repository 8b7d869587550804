import 'reflect-metadata';
import { plainToInstance } from 'class-transformer';
import { validateSync } from 'class-validator';

const VARIABLES = Symbol('yardmaster.config.variables');

interface Variable {
  property: string;
  name: string;
  secret: boolean;
  type: unknown;
}

/**
 * Fills a property of a configuration class from the environment variable `name`. The property's declared type says how
 * the text is read (string, number, boolean); its initialiser is the default. `secret`: the value is never printed.
 */
export function FromEnv(
  name: string,
  options: { secret?: boolean; type?: NumberConstructor | BooleanConstructor } = {},
): PropertyDecorator {
  return (target, property) => {
    const type: unknown = options.type ?? Reflect.getMetadata('design:type', target, property);
    const own = (Reflect.getOwnMetadata(VARIABLES, target.constructor) ?? []) as Variable[];
    Reflect.defineMetadata(
      VARIABLES,
      [...own, { property: String(property), name, secret: options.secret ?? false, type }],
      target.constructor,
    );
  };
}

function variablesOf(type: new () => object): Variable[] {
  const parent = Object.getPrototypeOf(type) as (new () => object) | null;
  const inherited = typeof parent === 'function' && parent.prototype !== undefined ? variablesOf(parent) : [];
  return [...inherited, ...((Reflect.getOwnMetadata(VARIABLES, type) ?? []) as Variable[])];
}

function read(text: string, type: unknown): unknown {
  if (type === Number) return text.trim() === '' ? Number.NaN : Number(text);
  if (type === Boolean) return /^(1|true|yes|on)$/i.test(text) ? true : /^(0|false|no|off)$/i.test(text) ? false : text;
  return text;
}

/** One mistake in the environment: the variable and the rule it breaks, never the value. */
export class ConfigError extends Error {
  constructor(readonly mistakes: readonly string[]) {
    super(mistakes.join('\n'));
    this.name = 'ConfigError';
  }
}

/** The configuration in `env` as a checked instance of `type`. Throws ConfigError with one line per mistake. */
export function loadConfig<T extends object>(type: new () => T, env: NodeJS.ProcessEnv = process.env): T {
  const variables = variablesOf(type);
  const values: Record<string, unknown> = {};
  for (const { property, name, type: declared } of variables) {
    const text = env[name];
    if (text !== undefined && text !== '') values[property] = read(text, declared);
  }
  const config = plainToInstance(type, values, { exposeDefaultValues: true });
  const mistakes = validateSync(config, {
    validationError: { target: false, value: false },
  }).map((error) => {
    const variable = variables.find(({ property }) => property === error.property);
    // Of several broken rules the kind of value comes first: a bound means nothing to what is no number.
    const rules = error.constraints ?? {};
    const broken = rules['isInt'] ?? rules['isNumber'] ?? Object.values(rules)[0] ?? 'it is wrong';
    const rule = broken.startsWith(`${error.property} `) ? `it${broken.slice(error.property.length)}` : broken;
    const unset = variable !== undefined && env[variable.name] === undefined ? ' (not set)' : '';
    return `${variable?.name ?? error.property}: ${rule}${unset}`;
  });
  if (mistakes.length > 0) throw new ConfigError(mistakes.sort());
  return config;
}

/** Like `loadConfig`, but ends the process with one line per mistake on stderr and exit code 78 (EX_CONFIG). */
export function loadConfigOrExit<T extends object>(type: new () => T, env: NodeJS.ProcessEnv = process.env): T {
  try {
    return loadConfig(type, env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const mistake of error.mistakes) process.stderr.write(`configuration: ${mistake}\n`);
    process.exit(78);
  }
}
