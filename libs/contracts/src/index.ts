export * from './conversation-message.js';
export * from './yard-error.js';
