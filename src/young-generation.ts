import { setFlagsFromString } from 'node:v8';

/**
 * Loading modules makes garbage for which V8 would double its young generation again and again, and then keep it:
 * 12 MB of a service that does nothing yet. Imported first of all, this line holds it at its smallest.
 */
setFlagsFromString('--semi-space-growth-factor=1');

/** Lets it grow with the load, as V8 does by default. */
export const letYoungGenerationGrow = (): void => setFlagsFromString('--semi-space-growth-factor=2');
