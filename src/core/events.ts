/** Fields of a log event: plain values only, so that what is logged is chosen by name (style rule 12). */
export type EventFields = Readonly<Record<string, string | number | boolean | undefined | readonly string[]>>;

/** Where events of the service go. One name per thing that happens, in the form `thing.happened`. */
export interface EventLog {
  info(event: string, fields: EventFields): void;
  warn(event: string, fields: EventFields): void;
  error(event: string, fields: EventFields): void;
}
