/** Requests under way at each endpoint, for balancing. */
export class EndpointLoad {
  private readonly counts = new Map<string, number>();

  inFlight(endpoint: string): number {
    return this.counts.get(endpoint) ?? 0;
  }

  enter(endpoint: string): void {
    this.counts.set(endpoint, this.inFlight(endpoint) + 1);
  }

  leave(endpoint: string): void {
    const left = this.inFlight(endpoint) - 1;
    if (left > 0) this.counts.set(endpoint, left);
    else this.counts.delete(endpoint);
  }
}
