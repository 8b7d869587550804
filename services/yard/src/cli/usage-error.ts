/** A mistake on the command line: its message says what to write instead. Exit code 2. */
export class UsageError extends Error {
  constructor(
    message: string,
    /** Lines below the message, such as candidates. */
    readonly more: readonly string[] = [],
  ) {
    super(message);
    this.name = 'UsageError';
  }
}
