import type { MessageInitShape } from '@bufbuild/protobuf';
import { Controller } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { type ServeContext } from '@yardmaster/bus';
import { Serves } from '@yardmaster/bus/nest';
import {
  type DeleteToolRequest,
  type EmptySchema,
  type GetToolRequest,
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
  list(@Payload() request: ListToolsRequest, @Ctx() { tenant }: ServeContext): MessageInitShape<typeof ListToolsResponseSchema> {
    return this.tools.list(tenant, request.cursor, request.limit);
  }

  @Serves(Registry.get)
  get(@Payload() request: GetToolRequest, @Ctx() { tenant }: ServeContext): Tool {
    return this.tools.get(tenant, request.name);
  }

  @Serves(Registry.put)
  put(@Payload() request: PutToolRequest, @Ctx() { tenant }: ServeContext): Promise<Tool> {
    return this.tools.put(tenant, request.tool);
  }

  @Serves(Registry.delete)
  async delete(@Payload() request: DeleteToolRequest, @Ctx() { tenant }: ServeContext): Promise<MessageInitShape<typeof EmptySchema>> {
    await this.tools.delete(tenant, request.name);
    return {};
  }

  @Serves(Registry.resolve)
  resolve(@Payload() request: ResolveRequest, @Ctx() { tenant }: ServeContext): MessageInitShape<typeof ResolveResponseSchema> {
    return this.tools.resolve(tenant, request.names);
  }

  @Serves(Registry.search)
  search(@Payload() request: SearchToolsRequest, @Ctx() { tenant }: ServeContext): MessageInitShape<typeof SearchToolsResponseSchema> {
    return this.tools.search(tenant, request.query, request.limit);
  }

  @Serves(Registry.validate)
  validate(@Payload() request: ValidateRequest, @Ctx() { tenant }: ServeContext): MessageInitShape<typeof ValidateResponseSchema> {
    return this.tools.validate(tenant, request.name, request.argumentsJson);
  }
}
