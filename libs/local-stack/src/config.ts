/** Which programs the stack starts; `npm start` and `npm test` find them first and set these variables. */
export function programs(): { nats: string; redis: string } {
  return {
    nats: process.env['YM_NATS_SERVER'] || 'nats-server',
    redis: process.env['YM_REDIS_SERVER'] || 'redis-server',
  };
}
