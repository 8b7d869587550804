import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { type Limits, RENDER_STRATEGIES, type StartRun } from '@yardmaster/contracts';
import {
  ArrayMaxSize,
  ArrayUnique,
  IsArray,
  IsBoolean,
  IsIn,
  IsInt,
  IsNumber,
  IsObject,
  IsOptional,
  IsString,
  Matches,
  Max,
  MaxLength,
  Min,
} from 'class-validator';
import { type Fields, Nested, Obeys } from '../http/rules.js';

const RENDER = ['auto', ...RENDER_STRATEGIES];

const isText = (value: unknown, max: number): value is string =>
  typeof value === 'string' && value.trim() !== '' && value.length <= max;

function isContentPart(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return false;
  const { type, text, image_url: image } = part as Record<string, unknown>;
  if (type === 'text') return typeof text === 'string';
  if (type !== 'image_url' || typeof image !== 'object' || image === null) return false;
  const { url } = image as Record<string, unknown>;
  return typeof url === 'string' && /^(https?:\/\/|data:image\/[a-z+.-]+;base64,|artifact:)/.test(url);
}

const isInput = (value: unknown) =>
  isText(value, 1_000_000) ||
  (Array.isArray(value) && value.length > 0 && value.length <= 200 && value.every(isContentPart));

const isToolChoice = (value: unknown) =>
  ['auto', 'none', 'required'].includes(value as string) ||
  (typeof value === 'object' && value !== null && isText((value as { name?: unknown }).name, 128));

/** Bounds of one run; what is absent has the platform's bound. */
export class LimitsDto implements Fields<Limits> {
  @ApiPropertyOptional({ minimum: 1, maximum: 10_000, description: 'Model calls.' })
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(10_000)
  max_iterations: number | undefined;

  @ApiPropertyOptional({ minimum: 1, description: 'Prompt and completion tokens together.' })
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(Number.MAX_SAFE_INTEGER)
  max_tokens: number | undefined;

  @ApiPropertyOptional({ type: Number, description: 'More than 0.' })
  @IsOptional()
  @IsNumber()
  @Obeys('must be > 0', (value) => typeof value === 'number' && value > 0)
  max_cost_usd: number | undefined;

  @ApiPropertyOptional({ minimum: 1, maximum: 604_800, description: 'Seconds from start to end.' })
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(604_800)
  timeout_s: number | undefined;
}

/** What a caller may ask for; the fields come from run/v1/run.proto. */
export class StartRunDto implements Fields<StartRun, 'inputIsParts'> {
  @ApiProperty({
    description: 'The task: text, or content parts (text, image_url).',
    oneOf: [
      { type: 'string', maxLength: 1_000_000 },
      { type: 'array', items: { type: 'object' }, maxItems: 200 },
    ],
  })
  @Obeys('must be text (not empty, at most 1000000 characters) or up to 200 content parts', isInput)
  input!: string | Record<string, unknown>[];

  @ApiPropertyOptional({ format: 'uuid', description: 'Go on in this conversation; a new one is made without it.' })
  @IsOptional()
  @Obeys('must be the id of a conversation', (value) => typeof value === 'string' && value.length <= 64)
  conversation_id: string | undefined;

  @ApiPropertyOptional({ description: 'An agent of the platform configuration.' })
  @IsOptional()
  @Matches(/^[a-z0-9][a-z0-9_-]{0,39}$/, { message: '$property must be the name of an agent' })
  agent: string | undefined;

  @ApiPropertyOptional({ maxLength: 200 })
  @IsOptional()
  @Obeys('must be the name of a model', (value) => isText(value, 200))
  model: string | undefined;

  @ApiPropertyOptional({ maxLength: 100_000 })
  @IsOptional()
  @IsString()
  @MaxLength(100_000)
  system: string | undefined;

  @ApiPropertyOptional({ minimum: 0, maximum: 2 })
  @IsOptional()
  @IsNumber()
  @Min(0)
  @Max(2)
  temperature: number | undefined;

  @ApiPropertyOptional({ minimum: 1, maximum: 1_000_000 })
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(1_000_000)
  max_output_tokens: number | undefined;

  @ApiPropertyOptional({
    oneOf: [
      { enum: ['auto', 'none', 'required'], type: 'string' },
      { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    ],
  })
  @IsOptional()
  @Obeys('must be "auto", "none", "required" or {"name": a tool}', isToolChoice)
  tool_choice: string | Record<string, unknown> | undefined;

  @ApiPropertyOptional({ type: 'object', additionalProperties: true })
  @IsOptional()
  @IsObject()
  response_format: Record<string, unknown> | undefined;

  @ApiPropertyOptional({ type: [String], maxItems: 1000, description: 'Names of registered tools.' })
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(1000)
  @ArrayUnique()
  @Matches(/^[A-Za-z0-9_.:-]{1,128}$/, { each: true, message: '$property must be names of tools' })
  tools: string[] | undefined;

  @ApiPropertyOptional({ enum: ['auto', 'native', 'xml'] })
  @IsOptional()
  @IsIn(['auto', 'native', 'xml'])
  tool_dispatcher: string | undefined;

  @ApiPropertyOptional({ enum: RENDER, description: 'Strategy by which tool definitions reach the model.' })
  @IsOptional()
  @IsIn(RENDER)
  render: string | undefined;

  @ApiPropertyOptional({ type: LimitsDto })
  @IsOptional()
  @IsObject()
  @Nested(LimitsDto)
  limits: LimitsDto | undefined;

  @ApiPropertyOptional({ enum: ['enqueue', 'reject', 'interrupt'], default: 'enqueue' })
  @IsOptional()
  @IsIn(['enqueue', 'reject', 'interrupt'])
  on_busy: 'enqueue' | 'reject' | 'interrupt' | undefined;

  @ApiPropertyOptional({ description: 'Folder of the tenant that file and shell tools work in.' })
  @IsOptional()
  @Matches(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, {
    message: '$property must be 1 to 64 letters, digits, - or _, the first a letter or digit',
  })
  workspace: string | undefined;

  @ApiPropertyOptional({ type: 'object', additionalProperties: true, description: 'Yours; at most 16 KiB as JSON.' })
  @IsOptional()
  @IsObject()
  @Obeys('must be at most 16 KiB as JSON', (value) => JSON.stringify(value ?? {}).length <= 16_384)
  metadata: Record<string, unknown> | undefined;

  @ApiPropertyOptional({ description: 'Answer with the event stream of the run.' })
  @IsOptional()
  @IsBoolean()
  stream: boolean | undefined;
}
