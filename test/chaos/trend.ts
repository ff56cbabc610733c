/** A figure that was read again and again. */
export interface Sample {
  readonly atMs: number;
  readonly value: number;
}

/** How a figure went over a run. */
export interface Trend {
  readonly first: number;
  readonly last: number;
  /** By how much it grows in an hour, by the line that fits best. */
  readonly perHour: number;
}

/**
 * Compares the end of a run with its beginning, each taken as the median of a quarter of the samples: single peaks say
 * nothing about a leak.
 */
export function trendOf(samples: readonly Sample[]): Trend {
  const quarter = Math.max(1, Math.floor(samples.length / 4));
  return {
    first: median(samples.slice(0, quarter)),
    last: median(samples.slice(-quarter)),
    perHour: slopeOf(samples) * 3_600_000,
  };
}

function median(samples: readonly Sample[]): number {
  const values = samples.map(({ value }) => value).sort((a, b) => a - b);
  return values[Math.floor(values.length / 2)] ?? 0;
}

/** Least squares, per millisecond. */
function slopeOf(samples: readonly Sample[]): number {
  const mean = (read: (sample: Sample) => number): number =>
    samples.reduce((sum, sample) => sum + read(sample), 0) / samples.length;
  const meanMs = mean(({ atMs }) => atMs);
  const meanValue = mean(({ value }) => value);
  const spread = samples.reduce((sum, { atMs }) => sum + (atMs - meanMs) ** 2, 0);
  const common = samples.reduce((sum, { atMs, value }) => sum + (atMs - meanMs) * (value - meanValue), 0);
  return spread === 0 ? 0 : common / spread;
}
