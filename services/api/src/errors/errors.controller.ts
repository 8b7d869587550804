import { Controller, Get, Param } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import { ERROR_CATALOGUE, ERROR_CLASSES, YardError } from '@yardmaster/contracts';
import { nearestName } from '@yardmaster/tool-schema';
import { statusOf } from '../http/problem.js';

/** What a code means; the `type` of every problem leads here, so it needs no key. */
@ApiTags('errors')
@Controller('errors')
export class ErrorsController {
  @Get()
  @ApiOperation({ summary: 'All codes' })
  list() {
    return { items: Object.keys(ERROR_CATALOGUE).map(view), next_cursor: null };
  }

  @Get(':code')
  @ApiOperation({ summary: 'What a code means and what to do' })
  get(@Param('code') code: string) {
    if (Object.hasOwn(ERROR_CATALOGUE, code)) return view(code);
    const near = nearestName(code, Object.keys(ERROR_CATALOGUE));
    throw new YardError(
      'NOT_FOUND',
      'YM-CODE-UNKNOWN',
      `There is no code "${code.slice(0, 60)}"${near === undefined ? '.' : `, did you mean "${near}"?`}`,
    );
  }
}

function view(code: string) {
  const entry = ERROR_CATALOGUE[code]!;
  return {
    code,
    class: entry.class,
    status: statusOf(new YardError(entry.class, code, entry.means)),
    title: ERROR_CLASSES[entry.class].title,
    means: entry.means,
    remedy: entry.remedy,
  };
}
