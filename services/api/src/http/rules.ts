import { ValidateBy } from 'class-validator';

/** A rule of our own for a DTO: `says` completes "<property> …". */
export function Obeys(says: string, test: (value: unknown) => boolean): PropertyDecorator {
  return ValidateBy({
    name: `obeys ${says}`,
    validator: { validate: test, defaultMessage: () => `$property ${says}` },
  });
}

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
