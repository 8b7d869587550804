import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';

const LOOK_MS = 50;

/**
 * Keeps V8's space for new objects from growing beyond about `mostBytes`, and returns a function that ends that. Under
 * many streams it would become 128 MiB, which costs memory and saves no time here: what a chunk of a stream leaves behind
 * is dead long before. The flag for its size (`--max-semi-space-size`) works at the start of a process only, so that
 * everybody who starts one would have to know it; the factor by which it grows can be changed while it runs.
 */
export function boundNewSpace(mostBytes: number): () => void {
  let mayGrow = true;
  const allow = (grow: boolean): void => {
    if (grow === mayGrow) return;
    mayGrow = grow;
    setFlagsFromString(`--semi-space-growth-factor=${grow ? 2 : 1}`);
  };
  const timer = setInterval(() => {
    const space = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space');
    // V8 makes it small again when little is going on: then it may grow again.
    allow(space === undefined || space.space_size < mostBytes);
  }, LOOK_MS);
  timer.unref();
  return () => {
    clearInterval(timer);
    allow(true);
  };
}

/**
 * Lets the space for old objects grow by a share of what is alive before it is cleaned up. What requests under way leave
 * there is garbage soon; left to itself V8 collects it when it is twice as much as what lives.
 */
export function boundOldSpaceGrowth(percent: number): void {
  setFlagsFromString(`--heap-growing-percent=${percent}`);
}
