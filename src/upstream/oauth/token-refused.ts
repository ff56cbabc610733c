import { CredentialsRefused } from '../credentials.ts';

/** What is known about a refusal. */
export interface RefusalFacts {
  /** Whether the token endpoint itself decided so: it is the right one then. */
  readonly isDecision?: boolean;
  /** How long the authorization server wants to be left alone. */
  readonly retryAfterMs?: number;
}

/** An authorization server gave no token, or could not be found or asked. */
export class TokenRefused extends CredentialsRefused {
  /** For operators: what is known, and what to do about it. */
  override readonly detail: string;
  readonly facts: RefusalFacts;

  constructor(message: string, detail: string, facts: RefusalFacts = {}) {
    super(message, detail);
    this.detail = detail;
    this.facts = facts;
  }
}
