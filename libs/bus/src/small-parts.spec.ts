import { expect, it } from 'vitest';
import {
  argsHash,
  backoffMs,
  canonicalJson,
  childTrace,
  isTrace,
  matchesArgsHash,
  newTrace,
  parseDelivery,
  versionAtLeast,
} from './index.js';

it('both forms of an ack subject are read', () => {
  const told = { deliveryCount: 2, streamSequence: 41, deliverySequence: 77, pending: 5 };
  expect(parseDelivery('$JS.ACK.YM_RUN.work.2.41.77.1795986460580474202.5')).toEqual({
    stream: 'YM_RUN',
    consumer: 'work',
    ...told,
  });
  expect(parseDelivery('$JS.ACK.hub.ACCHASH.YM_RUN.work.2.41.77.1795986460580474202.5')).toEqual({
    stream: 'YM_RUN',
    consumer: 'work',
    ...told,
  });
  expect(parseDelivery('$JS.ACK._.ACCHASH.YM_RUN.work.2.41.77.1795986460580474202.5.rand')).toMatchObject(told);
  expect(parseDelivery('$JS.ACK.YM_RUN.work.x.41.77.1.5')).toBeUndefined();
  expect(parseDelivery('_INBOX.a.b')).toBeUndefined();
  expect(parseDelivery('')).toBeUndefined();
});

it('the hash of arguments does not depend on order and white space, and depends on everything else', () => {
  expect(canonicalJson({ b: [1, { d: null, c: 'x' }], a: true })).toBe('{"a":true,"b":[1,{"c":"x","d":null}]}');
  expect(argsHash('{"a":1, "b":2}')).toBe(argsHash('{"b":2,"a":1}'));
  expect(argsHash('{"a":1}')).not.toBe(argsHash('{"a":"1"}'));
  expect(matchesArgsHash('{ "b":2,"a":1 }', argsHash('{"a":1,"b":2}'))).toBe(true);
  expect(matchesArgsHash('{"a":1}', '')).toBe(false);
  expect(matchesArgsHash('{', argsHash('{}'))).toBe(false);
  expect(() => argsHash('{')).toThrow('no JSON');
});

it('versions are compared by number', () => {
  expect(versionAtLeast('2.10.4', [2, 9, 10])).toBe(true);
  expect(versionAtLeast('2.9.9', [2, 9, 10])).toBe(false);
  expect(versionAtLeast('2.9.10-beta.1', [2, 9, 10])).toBe(true);
  expect(versionAtLeast(undefined, [0, 0, 1])).toBe(false);
});

it('back-off grows, stays under its cap and is never negative', () => {
  expect(backoffMs(0, 100, 1000, () => 1)).toBe(100);
  expect(backoffMs(3, 100, 1000, () => 1)).toBe(800);
  expect(backoffMs(5000, 100, 1000, () => 1)).toBe(1000);
  expect(backoffMs(3, 100, 1000, () => 0)).toBe(0);
});

it('a child trace stays in its trace', () => {
  const trace = newTrace();
  expect(isTrace(trace)).toBe(true);
  expect(childTrace(trace).slice(0, 36)).toBe(trace.slice(0, 36));
  expect(childTrace(trace)).not.toBe(trace);
  expect(isTrace(childTrace('00-junk\r\nEvil: 1'))).toBe(true);
});
