/** Whether a name fits a pattern: the name itself, or a beginning of names followed by `*`. */
export const fitsPattern = (pattern: string, name: string): boolean =>
  pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
