/** Where the bus reports what no caller hears about; a pino logger fits. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** JSON knows nothing of errors. */
const withErrors = (_: string, value: unknown) =>
  value instanceof Error ? { type: value.name, message: value.message, stack: value.stack, cause: value.cause } : value;

const line = (level: string) => (fields: object, message: string) => {
  process.stderr.write(`${JSON.stringify({ level, ...fields, msg: message }, withErrors)}\n`);
};

/** One JSON line per warning or error on stderr: the log of a process that brought none. */
export const stderrLog: Log = { debug: () => {}, info: () => {}, warn: line('warn'), error: line('error') };
