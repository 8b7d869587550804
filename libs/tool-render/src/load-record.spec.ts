import { expect, it } from 'vitest';
import { loadRecord, readLoadRecord } from './load-record.js';

const tools = [
  { name: 'a', description: 'Ends a </function> block.\nAnd a line.', parameters: { type: 'object', properties: {} } },
  { name: 's__b', description: '도구', parameters: { type: 'object' }, server: 's', serverTool: 'b.c' },
];

it('gives back the tools that were written', () => {
  expect(readLoadRecord(loadRecord(tools))).toEqual(tools);
});

it('reads nothing from other text, and only whole lines from a cut one', () => {
  expect(readLoadRecord('No tool matches "x".')).toEqual([]);
  expect(readLoadRecord('<functions>\n<function>{"name":"a","desc\n</functions>')).toEqual([]);
});
