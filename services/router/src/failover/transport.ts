/** One HTTP request to a provider. Redirects are never followed: they could carry the key elsewhere. */
export interface TransportRequest {
  /** The configured provider: connections of one are never used for another, whose policy may differ. */
  provider: string;
  url: string;
  headers: Record<string, string>;
  body: string;
  connectTimeoutMs: number;
  signal: AbortSignal;
}

/** The answer as it comes. After the last use either `release` or `destroy` must be called. */
export interface TransportResponse {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  /** The next bytes, or null at the orderly end; rejects when the connection breaks or the signal is aborted. */
  next(): Promise<Uint8Array | null>;
  /** The rest is not needed; the connection may be kept if the body ends soon. */
  release(): void;
  /** Closes the connection now. */
  destroy(): void;
}

/** How requests get to providers; implemented over undici, and by fakes in tests. */
export interface Transport {
  send(request: TransportRequest): Promise<TransportResponse>;
}
