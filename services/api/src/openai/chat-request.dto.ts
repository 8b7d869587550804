import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import {
  ArrayMaxSize,
  IsArray,
  IsBoolean,
  IsInt,
  IsNumber,
  IsObject,
  IsOptional,
  IsString,
  Max,
  MaxLength,
  Min,
} from 'class-validator';
import { Obeys } from '../http/rules.js';

/**
 * The members of a chat completion that we read. Clients of this API send others too, more of them every month, which
 * change how the answer is made and not what it is: those are let through unread.
 */
export class ChatRequestDto {
  static readonly open = true;

  @ApiProperty({ description: 'A model, or agent:<name>.' })
  @IsString()
  @MaxLength(200)
  model!: string;

  @ApiProperty({ type: 'array', items: { type: 'object' } })
  @IsArray()
  @ArrayMaxSize(10_000)
  messages!: unknown[];

  @ApiPropertyOptional()
  @IsOptional()
  @IsBoolean()
  stream?: boolean | null;

  @ApiPropertyOptional({ type: 'object', additionalProperties: true })
  @IsOptional()
  @IsObject()
  stream_options?: { include_usage?: boolean } | null;

  @ApiPropertyOptional({ type: 'array', items: { type: 'object' } })
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(1000)
  tools?: Record<string, unknown>[] | null;

  @ApiPropertyOptional()
  @IsOptional()
  tool_choice?: unknown;

  @ApiPropertyOptional({ type: 'object', additionalProperties: true })
  @IsOptional()
  @IsObject()
  response_format?: Record<string, unknown> | null;

  @ApiPropertyOptional({ minimum: 0, maximum: 2 })
  @IsOptional()
  @IsNumber()
  @Min(0)
  @Max(2)
  temperature?: number | null;

  @ApiPropertyOptional({ minimum: 0, maximum: 1 })
  @IsOptional()
  @IsNumber()
  @Min(0)
  @Max(1)
  top_p?: number | null;

  @ApiPropertyOptional()
  @IsOptional()
  @IsInt()
  @Min(1)
  max_tokens?: number | null;

  @ApiPropertyOptional()
  @IsOptional()
  @IsInt()
  @Min(1)
  max_completion_tokens?: number | null;

  @ApiPropertyOptional()
  @IsOptional()
  @Obeys(
    'must be text or up to 16 texts',
    (value) =>
      typeof value === 'string' ||
      (Array.isArray(value) && value.length <= 16 && value.every((text) => typeof text === 'string')),
  )
  stop?: string | string[] | null;

  @ApiPropertyOptional()
  @IsOptional()
  @IsInt()
  @Min(0)
  @Max(4_294_967_295)
  seed?: number | null;

  @ApiPropertyOptional({ minimum: 1, maximum: 1 })
  @IsOptional()
  @Obeys('must be 1: one answer is made', (value) => value === 1)
  n?: number | null;

  @ApiPropertyOptional({ description: 'Ours: providers to use, in order.', type: [String] })
  @IsOptional()
  @IsArray()
  @IsString({ each: true })
  providers?: string[];
}
