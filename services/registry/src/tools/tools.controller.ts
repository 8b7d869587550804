import type { MessageInitShape } from '@bufbuild/protobuf';
import { Controller } from '@nestjs/common';
import { type ServeContext } from '@yardmaster/bus';
import { Serves } from '@yardmaster/bus/nest';
import {
  type DeleteToolRequest,
  type EmptySchema,
  type ListToolsRequest,
  type ListToolsResponseSchema,
  type PutToolRequest,
  Registry,
  type ResolveRequest,
  type ResolveResponseSchema,
  type SearchToolsRequest,
  type SearchToolsResponseSchema,
  type Tool,
  type ValidateRequest,
  type ValidateResponseSchema,
} from '@yardmaster/contracts';
import { ToolsService } from './tools.service.js';

@Controller()
export class ToolsController {
  constructor(private readonly tools: ToolsService) {}

  @Serves(Registry.list)
  list(request: ListToolsRequest, { tenant }: ServeContext): MessageInitShape<typeof ListToolsResponseSchema> {
    return this.tools.list(tenant, request.cursor, request.limit);
  }

  @Serves(Registry.put)
  put(request: PutToolRequest, { tenant }: ServeContext): Promise<Tool> {
    return this.tools.put(tenant, request.tool);
  }

  @Serves(Registry.delete)
  async delete(request: DeleteToolRequest, { tenant }: ServeContext): Promise<MessageInitShape<typeof EmptySchema>> {
    await this.tools.delete(tenant, request.name);
    return {};
  }

  @Serves(Registry.resolve)
  resolve(request: ResolveRequest, { tenant }: ServeContext): MessageInitShape<typeof ResolveResponseSchema> {
    return this.tools.resolve(tenant, request.names);
  }

  @Serves(Registry.search)
  search(request: SearchToolsRequest, { tenant }: ServeContext): MessageInitShape<typeof SearchToolsResponseSchema> {
    return this.tools.search(tenant, request.query, request.limit);
  }

  @Serves(Registry.validate)
  validate(request: ValidateRequest, { tenant }: ServeContext): MessageInitShape<typeof ValidateResponseSchema> {
    return this.tools.validate(tenant, request.name, request.argumentsJson);
  }
}
