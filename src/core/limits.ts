/** Bounds that no configuration moves. Those that an operator may set live beside the settings they belong to. */
export const limits = {
  /** Nesting of objects and arrays in any JSON that comes from outside. */
  jsonDepthMax: 64,
  /** Characters of a `call_id`, a run or a turn name. */
  idCharsMax: 256,
  /** How often one call may be run whose earlier attempts ended nobody knows how. */
  claimsMax: 10,
  /** Posts of one call that wait for the same run of it. */
  waitersMax: 256,
  /** Characters of a name in an intent. */
  nameCharsMax: 256,
  /** Characters of an argument text. */
  argumentsCharsMax: 1_048_576,
  /** Findings about arguments told to a model. */
  findingsMax: 5,
  /** Characters of a message that repeats something a server said. */
  foreignMessageCharsMax: 500,
  /** Characters of a title or a description of a tool, as its server wrote them. */
  toolTextCharsMax: 8_192,
  /** Near names offered after a name that does not exist. */
  nearNamesMax: 3,
  /** Bytes of the outputs of one turn as JSON, all together; also those that may wait for the reader of a stream. */
  turnOutputBytesMax: 134_217_728,
  /** Bytes of cached declaration bodies. */
  declarationCacheBytesMax: 67_108_864,
} as const;
