export { ApiError } from './api-error.js';
export { type EventOptions } from './event-source.js';
export { type CallOptions, type ClientOptions } from './http.js';
export { paged } from './paging.js';
export { type RunFilter, RunHandle, Runs, type StartOptions } from './runs.js';
export * from './types.js';
export { Conversations, Keys, McpServers, Providers, Tenants, Tools, Yardmaster } from './yardmaster.js';
