import { Module } from '@nestjs/common';
import { ToolCatalogue } from './tools/tool-catalogue.js';
import { ToolsController } from './tools/tools.controller.js';
import { ToolsService } from './tools/tools.service.js';

@Module({ controllers: [ToolsController], providers: [ToolCatalogue, ToolsService] })
export class RegistryModule {}
