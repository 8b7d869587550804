export { startServers, type Servers, type ServersOptions } from './servers.js';
