export * from './config.js';
export * from './health.js';
export * from './logging.js';
export * from './platform-config.js';
export * from './platform-config-schema.js';
export * from './service-config.js';
export * from './start.js';
export * from './tokens.js';
