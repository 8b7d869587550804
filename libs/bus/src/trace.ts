import { randomBytes } from 'node:crypto';

const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** A new W3C traceparent, sampled. */
export const newTrace = () => `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01`;

/** The same trace with a new span id, for the next hop; a new trace when there was none. */
export const childTrace = (parent: string | undefined) =>
  parent !== undefined && isTrace(parent)
    ? `${parent.slice(0, 36)}${randomBytes(8).toString('hex')}${parent.slice(52)}`
    : newTrace();

/** Is this a traceparent that may be passed on? */
export const isTrace = (text: string) => TRACEPARENT.test(text);
