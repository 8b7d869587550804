export * from './accounts.js';
export * from './api-key.js';
export * from './built-in-tools.js';
export * from './catalogue.js';
export * from './conversation-message.js';
export * from './error-catalogue.js';
export * from './exact-json.js';
export * from './ids.js';
export * from './model-forms.js';
export * from './run-events.js';
export * from './tenant-approvals.js';
export * from './tenant-mcp-servers.js';
export * from './tenant-quota.js';
export * from './yard-error.js';
export {
  type AuditRecord,
  AuditRecordSchema,
  type Empty,
  EmptySchema,
  type Error as WireError,
  ErrorSchema as WireErrorSchema,
  type StreamControl,
  StreamControlSchema,
  type StreamFrame,
  StreamFrameSchema,
} from './gen/yardmaster/common/v1/common_pb.js';
export * from './gen/yardmaster/executor/v1/executor_pb.js';
export {
  type Decision as FleetDecision,
  type Executor as FleetExecutor,
  type Pod as FleetPod,
  type ViewRequest as FleetViewRequest,
  ViewRequestSchema as FleetViewRequestSchema,
  type ViewResponse as FleetViewResponse,
  ViewResponseSchema as FleetViewResponseSchema,
} from './gen/yardmaster/fleet/v1/fleet_pb.js';
export * from './gen/yardmaster/registry/v1/registry_pb.js';
export * from './gen/yardmaster/router/v1/router_pb.js';
export * from './gen/yardmaster/run/v1/run_pb.js';
