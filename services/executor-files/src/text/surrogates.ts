/** Half of a surrogate pair: no file name and no UTF-8 text can hold it. */
export const hasLoneSurrogate = (text: string): boolean =>
  // Every Node that we run on has it; the type is of a later library than the project's.
  !(text as string & { isWellFormed(): boolean }).isWellFormed();
