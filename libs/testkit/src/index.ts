export { assistantTurn, callTurn, longConversation, resultTurn, userTurn } from './builders.js';
export { type Direction, FaultProxy, type Faults } from './fault-proxy.js';
export { startServers, type Servers, type ServersOptions } from './servers.js';
export { ordinaryUser, type OrdinaryUser } from './ordinary-user.js';
export { until } from './until.js';
export { type DemoModel, type ModelOptions, type Reaction, type Script, startModel } from '@yardmaster/local-stack';
export {
  startFaultServer,
  FaultConnection,
  type FaultRequest,
  type FaultScript,
  type FaultServer,
} from './fault-server.js';
