import type { Tool } from '@yardmaster/executor-kit';
import type { FileServices } from './services.js';
import { fileDelete } from './tools/file-delete.js';
import { fileEdit, fileMultiEdit } from './tools/file-edit.js';
import { fileList } from './tools/file-list.js';
import { fileMove } from './tools/file-move.js';
import { fileRead } from './tools/file-read.js';
import { fileSearch } from './tools/file-search.js';
import { fileStat } from './tools/file-stat.js';
import { fileWrite } from './tools/file-write.js';

/** The registered file tools, run on the workspaces. */
export const fileTools = (services: FileServices): Tool[] =>
  [fileRead, fileWrite, fileEdit, fileMultiEdit, fileList, fileSearch, fileMove, fileDelete, fileStat].map((tool) =>
    tool(services),
  );
