export { newPassword } from './credentials.js';
export { CORE_ACCOUNT, natsConfig, type NatsConfigOptions, natsTable, type NatsTable } from './nats-config.js';
export { type Login, type NatsOptions, NatsServer, startNats } from './nats-server.js';
export { onFreePort, PortTaken } from './ports.js';
export { redisAcl, type RedisOptions, RedisServer, startRedis } from './redis-server.js';
export { Server, type ServerOptions } from './server.js';
export { type Exit, ServerProcess, type ServerProcessOptions } from './server-process.js';
