/** A failure that its reader can do something about; its message is all that is printed. */
export class StackError extends Error {
  constructor(
    message: string,
    readonly exitCode: number,
  ) {
    super(message);
    this.name = 'StackError';
  }
}
