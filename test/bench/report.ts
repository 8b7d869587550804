/** One line of a benchmark. Metric names are stable; `against` names the floor or peer measured in the same run. */
export interface Row {
  bench: string;
  metric: string;
  value: number;
  unit: string;
  against?: string;
  /** value / value of `against` */
  ratio?: number;
  /** In words or a bound, e.g. `<= 1.5x`. */
  target?: string;
  ok?: boolean;
}

/** A benchmark yields its rows as they are measured. `quick` asks for a shorter run with the same rows. */
export type Bench = (options: { quick: boolean }) => AsyncIterable<Row>;
