// Minimum, median and maximum over the rounds, of values and of ratios.

export function spread(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const median = sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return { min: sorted[0], median, max: sorted[sorted.length - 1] };
}

/** One figure of one subject over the rounds. */
export const spreadOf = (samples, subject, inFlight, figure) =>
  spread(pick(samples, subject, inFlight).map((sample) => sample[figure]));

/** A figure of one subject divided by that of another in the same round. */
export function ratioOf(samples, [subject, other], inFlight, figure) {
  const others = pick(samples, other, inFlight);
  return spread(
    pick(samples, subject, inFlight).map(
      (sample) => sample[figure] / others.find(({ round }) => round === sample.round)[figure],
    ),
  );
}

const pick = (samples, subject, inFlight) =>
  samples.filter((sample) => sample.subject === subject && sample.inFlight === inFlight);
