import { type ArgumentMetadata, Injectable, type PipeTransform } from '@nestjs/common';
import { YardError } from '@yardmaster/contracts';
import { nearestName } from '@yardmaster/tool-schema';
import { plainToInstance } from 'class-transformer';
import { getMetadataStorage, type ValidationError, validateSync } from 'class-validator';
import { nestedType } from './rules.js';

/** One thing that is wrong with a request. */
export interface Fault {
  /** JSON pointer into the body, or the name of the query parameter. */
  pointer: string;
  rule: string;
  got?: unknown;
  did_you_mean?: string;
}

/**
 * Checks bodies and queries against the class of the parameter, and lists every fault. Unknown members are faults too,
 * unless the class has a static `open`.
 */
@Injectable()
export class CheckedPipe implements PipeTransform {
  transform(value: unknown, { type, metatype }: ArgumentMetadata): unknown {
    if ((type !== 'body' && type !== 'query') || !isDto(metatype)) return value;
    return check(metatype, value, type === 'query');
  }
}

const isDto = (type: unknown): type is new () => object =>
  typeof type === 'function' && rulesOf(type as new () => object).length > 0;

const rulesOf = (type: new () => object) =>
  getMetadataStorage().getTargetValidationMetadatas(type, '', false, false) as { propertyName: string }[];

/** `value` as a checked instance of `type`. Throws INVALID with every fault. */
export function check<T extends object>(type: new () => T, value: unknown, isQuery = false): T {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new YardError('INVALID', 'YM-REQ-INVALID', 'The request body must be a JSON object.');
  const instance = instantiate(type, value as Record<string, unknown>);
  const errors = validateSync(instance, {
    whitelist: true,
    forbidNonWhitelisted: !(type as { open?: boolean }).open,
    validationError: { target: false },
  });
  const stray = (type as { open?: boolean }).open
    ? []
    : straysIn(type, value as Record<string, unknown>, '').map((pointer): Fault => ({ pointer, rule: 'is unknown' }));
  if (errors.length + stray.length === 0) return instance;
  const faults = [...stray, ...errors.flatMap((error) => faultsOf(error, '', type))].slice(0, 50);
  const where = (fault: Fault) => (isQuery ? fault.pointer.slice(1) : fault.pointer);
  throw new YardError(
    'INVALID',
    'YM-REQ-INVALID',
    `${faults.length === 1 ? '1 problem' : `${faults.length} problems`} in the request: ` +
      `${faults.map((fault) => `${where(fault)} ${fault.rule}`).join('; ')}.`,
    { details: { errors: faults } },
  );
}

/** Every object has it already, so an instance cannot take it over from what was sent. */
const isOfEveryObject = (name: string) => name in Object.prototype;

/** Pointers of the members that no instance can take over, in declared members too. */
const straysIn = (type: new () => object, value: Record<string, unknown>, at: string): string[] =>
  Object.entries(value).flatMap(([name, member]) => {
    if (isOfEveryObject(name)) return [`${at}/${name}`];
    const nested = nestedType(type, name);
    return nested === undefined || !isFree(member) || Array.isArray(member)
      ? []
      : straysIn(nested, member as Record<string, unknown>, `${at}/${name}`);
  });

const isFree = (member: unknown) => typeof member === 'object' && member !== null;

/**
 * Members of a declared class become instances of it; other objects and lists stay as they were sent: copies would lose
 * members named like those of every object, and cost as much as reading them.
 */
function instantiate<T extends object>(type: new () => T, value: Record<string, unknown>): T {
  const entries = Object.entries(value).filter(([name]) => !isOfEveryObject(name));
  const scalars = Object.fromEntries(entries.filter(([, member]) => !isFree(member)));
  const instance = plainToInstance(type, scalars);
  const members = instance as Record<string, unknown>;
  for (const [name, member] of entries) {
    if (!isFree(member)) continue;
    const nested = nestedType(type, name);
    members[name] =
      nested === undefined || Array.isArray(member) ? member : instantiate(nested, member as Record<string, unknown>);
  }
  return instance;
}

function faultsOf(error: ValidationError, at: string, type?: new () => object): Fault[] {
  const pointer = `${at}/${error.property.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  const got = printable(error.value);
  const own = Object.entries(error.constraints ?? {}).map(([kind, message]): Fault => {
    if (kind === 'whitelistValidation') {
      const names = type === undefined ? [] : rulesOf(type).map(({ propertyName }) => propertyName);
      const near = nearestName(error.property, names);
      return {
        pointer,
        rule: `is unknown${near === undefined ? '' : `, did you mean "${near}"?`}`,
        ...(near === undefined ? {} : { did_you_mean: near }),
      };
    }
    const rule = message.startsWith(`${error.property} `) ? message.slice(error.property.length + 1) : message;
    return {
      pointer,
      rule: got === undefined ? rule : `${rule} (got ${JSON.stringify(got)})`,
      ...(got !== undefined && { got }),
    };
  });
  // One fault is enough for one value; the rules of its members say more than its own.
  const children = (error.children ?? []).flatMap((child) =>
    faultsOf(child, pointer, (error.value as object | undefined)?.constructor as (new () => object) | undefined),
  );
  return children.length > 0 ? children : own.slice(0, 1);
}

function printable(value: unknown): unknown {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  if (typeof value === 'boolean' || value === null) return value;
  if (typeof value === 'string') return value.length > 60 ? `${value.slice(0, 60)}…` : value;
  return undefined;
}
