import { describe, expect, it } from 'vitest';
import { UsageError } from '../cli/usage-error.js';
import { findByFragment, isWholeId, NothingFound } from './fragments.js';

const ITEMS = [
  { id: '01a2294a-4d55-7514-b5fc-60fab215bff3' },
  { id: '01a2294a-461a-7782-beb0-5d375eba0502' },
  { id: '01a2294a-461b-7782-beb0-aaaaaaaaaaaa' },
];
const find = (fragment: string) =>
  findByFragment(fragment, { what: 'run', listCommand: 'yard run list' }, ITEMS, () => 'queued');

describe('a piece of an id', () => {
  it.each([
    ['its end', '15bff3', 0],
    ['its middle', '4d55-7514', 0],
    ['across hyphens, without them', '4a4d5575', 0],
    ['in capitals', '5D375EBA', 1],
  ])('may be %s', async (_, fragment, index) => {
    expect(await find(fragment)).toBe(ITEMS[index]);
  });

  it('must have six characters', async () => {
    await expect(find('5bff3')).rejects.toThrow(/at least 6 characters/);
    await expect(find('5bf-f3')).rejects.toBeInstanceOf(UsageError);
  });

  it('must fit one, and says which it fits', async () => {
    const error = await find('7782beb0').catch((error: unknown) => error as UsageError);
    expect(error).toBeInstanceOf(UsageError);
    expect((error as UsageError).more).toEqual([`${ITEMS[1]!.id}  queued`, `${ITEMS[2]!.id}  queued`]);
  });

  it('that fits none names the list', async () => {
    await expect(find('ffffff')).rejects.toThrow(NothingFound);
    await expect(find('ffffff')).rejects.toThrow(/yard run list/);
  });
});

it('whole ids are not searched for', () => {
  expect(isWholeId(ITEMS[0]!.id)).toBe(true);
  expect(isWholeId(ITEMS[0]!.id.slice(1))).toBe(false);
});
