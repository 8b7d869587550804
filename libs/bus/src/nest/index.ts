export { BUS, BusModule } from './bus-module.js';
export { BusServer, type BusServerOptions } from './bus-server.js';
export { BUS_TRANSPORT, Hears, Serves, Works } from './handlers.js';
