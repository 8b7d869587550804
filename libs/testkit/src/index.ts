export { startServers, type Servers, type ServersOptions } from './servers.js';
export { startFaultServer, FaultConnection, type FaultRequest, type FaultScript, type FaultServer } from './fault-server.js';
