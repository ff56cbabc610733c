import type { FormatName } from '../../../src/client/client.ts';
import type { Body, Schema } from './schema.ts';

/** A call that the scripted model asks for. */
export interface Asked {
  readonly id: string;
  readonly name: string;
  /** Where the API keeps a part of the name apart. */
  readonly namespace?: string;
  readonly input: Readonly<Record<string, unknown>>;
}

/** A result as a model gets it. */
export interface Seen {
  readonly text: string;
  /** Undefined where the provider has no flag for it. */
  readonly isError: boolean | undefined;
  /** Media types of the images that the model is shown. */
  readonly images: readonly string[];
}

/** The API of a provider, as far as a tool loop uses it. It refuses what the real one would refuse. */
export interface Provider {
  readonly format: FormatName;
  /** Where requests are sent. */
  readonly path: RegExp;
  /** What stands in the header for credentials; nothing where it takes none. */
  readonly key: RegExp;
  /** The protocol that its client speaks. */
  readonly http2?: boolean;
  /** An id as this provider makes them; undefined where it makes none. */
  readonly id?: (count: number) => string;
  /** The body of a request; what the schema does not have is refused. */
  readonly request: Schema;
  readonly tools: (body: Body) => readonly unknown[];
  /** The list at whose end the results stand. */
  readonly answered: (body: Body) => Body[];
  /** An answer with calls. */
  readonly ask: (calls: readonly Asked[]) => Body;
  /** A last answer. */
  readonly say: (text: string) => Body;
  /** The results in the request that follows an answer with calls. @throws Refusal */
  readonly results: (body: Body, answer: Body, calls: readonly Asked[]) => readonly Seen[];
  readonly refusal: (message: string) => Body;
}
