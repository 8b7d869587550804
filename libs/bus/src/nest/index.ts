export { BusServer, type BusServerOptions } from './bus-server.js';
export { BUS_TRANSPORT, Hears, RethrowFilter, Serves, Works } from './handlers.js';
