import type { JsonObject } from '../core/json.ts';
import type { Result } from '../core/result.ts';
import type { ToolPolicy } from './policy.ts';

export interface Binding {
  readonly name: string;
}
export interface Registry {
  readonly find: (name: string) => Binding | undefined;
}
