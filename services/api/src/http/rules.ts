import { ValidateBy, ValidateNested } from 'class-validator';

/** A rule of our own for a DTO: `says` completes "<property> …". */
export function Obeys(says: string, test: (value: unknown) => boolean): PropertyDecorator {
  return ValidateBy({
    name: `obeys ${says}`,
    validator: { validate: test, defaultMessage: () => `$property ${says}` },
  });
}

const NESTED = Symbol('yardmaster.nested');

/** A member that is an object with rules of its own. */
export function Nested(type: new () => object): PropertyDecorator {
  return (target, property) => {
    Reflect.defineMetadata(NESTED, type, target, property);
    ValidateNested()(target, property);
  };
}

/** The class of a member that `Nested` declared. */
export const nestedType = (type: new () => object, property: string): (new () => object) | undefined =>
  Reflect.getMetadata(NESTED, type.prototype as object, property) as (new () => object) | undefined;

/** `conversationId` -> `conversation_id` */
type Snake<S extends string> = S extends `${infer Head}${infer Tail}`
  ? Tail extends Uncapitalize<Tail>
    ? `${Uncapitalize<Head>}${Snake<Tail>}`
    : `${Uncapitalize<Head>}_${Snake<Tail>}`
  : S;
type WithoutJson<S extends string> = S extends `${infer Name}Json` ? Name : S;

/**
 * The members that a DTO of a generated message must have, optional ones included, in the names of the HTTP API: a field
 * added to the proto does not compile until someone decides its rule. Fields of free JSON lose their suffix.
 */
export type Fields<M, Without extends keyof M = never> = {
  [K in Exclude<keyof M, '$typeName' | '$unknown' | Without> & string as Snake<WithoutJson<K>>]-?: unknown;
};
