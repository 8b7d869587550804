/** Why a command is refused before anything runs. */
export interface Interception {
  /** Stable name of the rule. */
  rule: string;
  /** What was seen and what to do instead. */
  reason: string;
}

/** Where the command would run, for judging its paths. */
export interface InterceptContext {
  /** The workspace inside the sandbox. */
  workspace: string;
  /** The same on the machine, which a model may have seen in a path. */
  hostWorkspace?: string;
  /** The working directory inside the sandbox. */
  cwd: string;
  home: string;
}

export function intercept(_command: string, _context: InterceptContext): Interception | null {
  return null;
}
