// Lets the examples find the clients of the providers, which are installed beside these tests and not beside them.
import { registerHooks } from 'node:module';

registerHooks({
  resolve(specifier, context, next) {
    const isBare = /^[@a-z]/.test(specifier) && !/^(node:|file:|callgate\/)/.test(specifier);
    const isExample = context.parentURL?.includes('/examples/') === true;
    return next(specifier, isBare && isExample ? { ...context, parentURL: import.meta.url } : context);
  },
});
