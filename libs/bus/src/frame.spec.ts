import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { StreamFrameSchema } from '@yardmaster/contracts';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decodeFrame, encodeDataFrame, encodeFrame } from './frame.js';

const numbers = fc.oneof(fc.nat(300), fc.integer({ min: 0, max: 2 ** 32 - 1 }));

it('the hand-written data frame is a StreamFrame to any protobuf decoder, and the other way round', () => {
  fc.assert(
    fc.property(numbers, fc.uint8Array({ maxLength: 20_000 }), (n, data) => {
      const decoded = fromBinary(StreamFrameSchema, encodeDataFrame(n, data));
      expect([decoded.n, decoded.kind.case, decoded.kind.value]).toEqual([n, 'data', data]);
      const general = toBinary(
        StreamFrameSchema,
        create(StreamFrameSchema, { n, kind: { case: 'data', value: data } }),
      );
      const { kind, n: number } = decodeFrame(general);
      expect([number, kind.case, kind.value]).toEqual([n, 'data', data]);
    }),
  );
});

it('other frames go through the general coder', () => {
  expect(decodeFrame(encodeFrame(7, { case: 'end', value: true }))).toMatchObject({ n: 7, kind: { case: 'end' } });
  expect(decodeFrame(encodeFrame(0, { case: 'beat', value: true }))).toMatchObject({ n: 0, kind: { case: 'beat' } });
});

it('bytes that are no frame throw or decode; they never hang', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      try {
        decodeFrame(bytes);
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
      }
    }),
  );
});
