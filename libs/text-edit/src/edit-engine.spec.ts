import { afterAll, describe, expect, it } from 'vitest';
import { applyEdit, createEditEngine } from './index.js';

const engine = createEditEngine();
afterAll(() => engine.close());

const large = Array.from({ length: 5000 }, (_, i) => `  const value${i} = compute(${i}, 'name ${i * 7}');`).join('\n');

describe('the edit engine', () => {
  it('finds in a thread what it finds without one', async () => {
    const request = {
      oldString: "const value4000 = compute(4000, 'nmae 28000');\n  const value4001 = compute(4001, 'name 28007');",
      newString: "const value4000 = compute(4000, 'nmae 28000');\n  const value4001 = compute(0);",
    };
    const inThread = await engine.apply(large, request, { path: 'a.ts' });
    expect(inThread).toMatchObject({ status: 'applied', startLine: 4001 });
    expect(inThread).toEqual(await applyEdit(large, request, { path: 'a.ts', ast: engine.ast }));
  });

  it('leaves the event loop free while it searches a large file', async () => {
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    await engine.apply(large, { oldString: 'nothing like this\n'.repeat(20), newString: 'x' }, { path: 'a.ts' });
    clearInterval(timer);
    expect(turns).toBeGreaterThan(0);
  });

  it('ends with the reason of a signal', async () => {
    const reason = new Error('the run was cancelled');
    await expect(
      engine.apply(large, { oldString: 'a\nb', newString: 'x' }, { signal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason);
  });

  it('edits a call that a formatter broke over lines, by its tokens', async () => {
    const content =
      'export function start(server: Server) {\n  server.listen(\n    config.port,\n    config.host,\n  );\n}\n';
    const result = await engine.apply(
      content,
      { oldString: '  server.listen(config.port, config.host);', newString: '  server.listen(config.port, "::");' },
      { path: 'a.ts' },
    );
    expect(result).toMatchObject({
      status: 'applied',
      pass: 8,
      content: 'export function start(server: Server) {\n  server.listen(config.port, "::");\n}\n',
    });
  });

  it('names the passes that could not run', async () => {
    const result = await engine.apply(
      'select 1;\n',
      { oldString: 'select many_things from somewhere;', newString: 'x' },
      { path: 'a.sql' },
    );
    expect(result.skipped.map(({ pass, reason }) => [pass, reason])).toEqual([
      [8, 'no grammar for a.sql'],
      [7, 'no embedding endpoint'],
    ]);
  });

  it('ranks candidates by meaning and writes nothing for them', async () => {
    const content =
      'function loadUser(id) {\n  return db.find(id, "users", true);\n}\n\nfunction dropUser(id) {\n  return db.drop(id, "users", true);\n}\n';
    const request = {
      oldString: 'function fetchUser(id) {\n  return db.get(id, "users", false);\n}',
      newString: 'gone',
    };
    const embed = (texts: string[]) =>
      Promise.resolve(texts.map((text) => (text.includes('dropUser') ? [0, 1] : [1, 0])));
    const result = await engine.apply(content, request, { path: 'a.js', embed });
    expect(result.status).not.toBe('applied');
    if (result.status !== 'applied') {
      expect(result.candidates[0]).toMatchObject({ pass: 7, startLine: 1 });
      expect(result.candidates.every(({ confidence }) => confidence <= 0.6)).toBe(true);
    }
  });

  it('refuses an approximate edit that would break the syntax, when asked to', async () => {
    const content =
      'export function total(items: Item[]): number {\n  let sum = 0;\n  for (const item of items) sum += item.price;\n  return sum;\n}\n';
    const request = {
      oldString: '  let sum = 0;\n  for (const item of itmes) sum += item.price;\n  return sum;',
      newString: '  let sum = (0;\n  for (const item of itmes) sum += item.price;\n  return sum;',
    };
    expect((await engine.apply(content, request, { path: 'a.ts' })).status).toBe('applied');
    expect((await engine.apply(content, request, { path: 'a.ts', syntaxGate: true })).status).toBe('below_confidence');
  });
});
