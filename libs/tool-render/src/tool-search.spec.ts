import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ToolSearch, type ToolView, catalogueOf } from './index.js';

const tool = (name: string, description: string, more: Partial<ToolView> = {}): ToolView => ({
  name,
  description,
  ...more,
});
const tools = [
  tool('file_read', 'Reads a text file.', { parameters: { type: 'object', properties: { path: { type: 'string' } } } }),
  tool('file_write', 'Writes a text file.'),
  tool('mail_send', 'Sends an e-mail.', { aliases: ['메일 보내기', 'メール送信'] }),
  tool('desk__open_ticket', 'Opens a ticket.', { server: 'desk', serverTool: 'openTicket' }),
  tool('kr_inventory', '창고별 상품 재고 수량을 조회한다'),
];
const names = (query: string, limit?: number) =>
  new ToolSearch(catalogueOf(tools)).search(query, limit).map((hit) => hit.name);

describe('the search', () => {
  it('puts the exact name first, by the name of the server too', () => {
    expect(names('file_write')[0]).toBe('file_write');
    expect(names('openTicket')[0]).toBe('desk__open_ticket');
    expect(names('readFile')[0]).toBe('file_read');
  });

  it('gives what select: names, in the order asked and without unknown ones', () => {
    expect(names('select: mail_send, nothing,file_read,mail_send')).toEqual(['mail_send', 'file_read']);
    expect(names('select:')).toEqual([]);
  });

  it('finds Korean words with particles, and other languages by aliases', () => {
    expect(names('재고를')).toEqual(['kr_inventory']);
    expect(names('메일')).toEqual(['mail_send']);
    expect(names('メールの送信')).toEqual(['mail_send']);
  });

  it('says nothing rather than something weak', () => {
    expect(names('guitar chords')).toEqual([]);
    expect(names('the of and')).toEqual([]);
    // One common word of five.
    expect(names('reads guitar chords and piano notes')).toEqual([]);
    expect(names('')).toEqual([]);
    expect(new ToolSearch(catalogueOf([])).search('file')).toEqual([]);
  });

  it('orders equal tools by name, whatever the order of the words', () => {
    const index = new ToolSearch(catalogueOf([tool('tool_a', 'Mows lawns.'), tool('tool_b', 'Paints fences.')]));
    for (const query of ['mow paint', 'paint mow'])
      expect(index.search(query).map((hit) => hit.name)).toEqual(['tool_a', 'tool_b']);
  });

  it('orders equal tools by name, whatever the order of registration', () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(['b', 'a', 'd', 'c'], { minLength: 4 }), (order) => {
        const index = new ToolSearch(catalogueOf(order.map((letter) => tool(`tool_${letter}`, 'Moves things.'))));
        expect(index.search('move', 3).map((hit) => hit.name)).toEqual(['tool_a', 'tool_b', 'tool_c']);
      }),
    );
  });
});
