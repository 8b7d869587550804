import {
  ExposedNames,
  RenderSession,
  catalogueOf,
  createRenderer,
  type ContextDelta,
  type ContextRenderer,
  type RenderSpec,
  type RoutedCall,
  type ToolView,
} from '@yardmaster/tool-render';
import { checkArguments } from '@yardmaster/tool-schema';
import { isDeepStrictEqual } from 'node:util';
import type { Suite, Verdict } from '../suite.ts';

interface Definition {
  name: string;
  description: string;
  parameters: Record<string, unknown> | null;
}

interface Step {
  op: string;
  role?: string;
  text?: string;
  query?: string;
  limit?: number;
  ranked?: string[];
  name?: string;
  tool?: string | Definition;
  add?: (string | Definition)[];
  remove?: string[];
  count?: number;
  summary?: string;
  args?: unknown;
  description?: string;
  parameters?: Record<string, unknown> | null;
  success?: boolean;
  raw?: string;
  server?: string;
}

type Check = Record<string, unknown> & { step?: number };

interface Case {
  id: string;
  strategy: string;
  options: Record<string, unknown>;
  tools: string[];
  inline_tools?: Definition[];
  servers?: Record<string, string>;
  steps: Step[];
  expected: { checks: Check[] };
}

/** What there is to see after a step. */
interface Snapshot {
  segments: string[];
  tools?: unknown[];
  delta?: ContextDelta;
  verdict?: ReturnType<typeof checkArguments>;
  call?: RoutedCall;
  exposed?: string;
  error?: string;
}

interface RenderFile {
  catalogue: Definition[];
  cases: Case[];
}

/** Runs the steps of each case through the renderer of its strategy; the form is in FORMATS.md. */
export const suite: Suite = function* (content) {
  const file = content as RenderFile;
  for (const one of file.cases) {
    let wrong: unknown[];
    try {
      wrong = one.strategy === 'name_mapping' ? runNames(one) : new Run(file, one, one.tools).check();
    } catch (error) {
      wrong = [{ threw: error instanceof Error ? error.stack : String(error) }];
    }
    const verdict: Verdict = { id: one.id, ok: wrong.length === 0 };
    yield verdict.ok ? verdict : { ...verdict, got: wrong, why: `${wrong.length} checks failed` };
  }
};

/** The options of a case in the words of the library. */
function specOf(one: Case): RenderSpec {
  const { list_names, meta_tools, ...rest } = one.options;
  return {
    strategy: one.strategy,
    ...rest,
    ...(list_names === undefined ? {} : { listNames: list_names }),
    ...(meta_tools === undefined ? {} : { metaTools: meta_tools }),
  } as RenderSpec;
}

class Run {
  readonly snapshots: Snapshot[] = [];
  private readonly tools = new Map<string, ToolView>();
  private readonly renderer: ContextRenderer;
  private session: RenderSession | undefined;
  private readonly file: RenderFile;
  private readonly one: Case;

  constructor(file: RenderFile, one: Case, order: string[]) {
    this.file = file;
    this.one = one;
    this.renderer = createRenderer(specOf(one));
    // What a step brings in is not there from the start.
    const later = new Set(one.steps.flatMap(({ op, tool, add }) => (op === 'initial' ? [] : [tool, ...(add ?? [])])));
    for (const name of order) this.add(later.has(name) ? this.inCatalogue(name) : name);
    for (const tool of one.inline_tools ?? []) if (!this.tools.has(tool.name) && !later.has(tool.name)) this.add(tool);
    for (const step of one.steps) this.step(step);
  }

  check(): unknown[] {
    return this.one.expected.checks.flatMap((check) => {
      const got = this.failure(check);
      return got === undefined ? [] : [{ check, got }];
    });
  }

  private add(tool: string | Definition): void {
    const known = [...(this.one.inline_tools ?? []), ...this.file.catalogue];
    const definition = typeof tool === 'string' ? known.find(({ name }) => name === tool) : tool;
    if (!definition) throw new Error(`the case names no tool ${String(tool)}`);
    const server = this.one.servers?.[definition.name];
    this.tools.set(definition.name, { ...definition, ...(server === undefined ? {} : { server }) });
  }

  private inCatalogue(name: string): string | Definition {
    return this.file.catalogue.find((tool) => tool.name === name) ?? name;
  }

  private open(): RenderSession {
    return (this.session ??= new RenderSession(this.renderer, catalogueOf(this.tools.values())));
  }

  private step(step: Step): void {
    const session = this.open();
    const extra: Partial<Snapshot> = {};
    const changed = (): void => {
      const delta = session.changeTools(catalogueOf(this.tools.values()));
      if (delta) extra.delta = delta;
    };
    switch (step.op) {
      case 'initial':
        break;
      case 'message':
        session.message(step.role ?? 'user', step.text ?? '');
        break;
      case 'search': {
        const delta = session.search(step.query ?? '', step.ranked ?? [], step.limit);
        if (delta) extra.delta = delta;
        break;
      }
      case 'describe': {
        const delta = session.describe(step.name ?? '');
        if (delta) extra.delta = delta;
        break;
      }
      case 'add_tool':
        this.add(step.tool ?? step.name ?? '');
        changed();
        break;
      case 'replace_tool': {
        // The new definition is a whole one, or names the tool and what is new of it.
        const name = step.name ?? (typeof step.tool === 'string' ? step.tool : step.tool?.name) ?? '';
        const { description, parameters } = step;
        const known = this.tools.get(name);
        if (known && (description !== undefined || parameters !== undefined)) {
          const news = { ...(description === undefined ? {} : { description }), ...(parameters === undefined ? {} : { parameters }) };
          this.tools.set(name, { ...known, ...news });
        } else this.add(step.tool ?? name);
        changed();
        break;
      }
      case 'remove_tool':
        this.tools.delete(step.name ?? String(step.tool));
        changed();
        break;
      case 'change_tools':
        for (const name of step.remove ?? []) this.tools.delete(name);
        for (const tool of step.add ?? []) this.add(tool);
        changed();
        break;
      case 'churn':
        for (let index = 0; index < (step.count ?? 0); index++) {
          this.add({ name: `churn_${index}`, description: `Made up ${index}.`, parameters: null });
          changed();
          this.tools.delete(`churn_${index}`);
          changed();
        }
        break;
      case 'compaction':
        session.compact(step.summary ?? '');
        break;
      case 'result':
        session.result(step.name ?? '', { text: step.text ?? '', ok: step.success ?? true });
        break;
      case 'call': {
        const tool = this.tools.get(step.name ?? '');
        if (!tool) throw new Error(`no tool ${step.name}`);
        extra.verdict = checkArguments(
          { name: tool.name, ...(tool.parameters ? { inputSchema: tool.parameters } : {}) },
          JSON.stringify(step.args),
        );
        break;
      }
      case 'parse': {
        const parsed = this.renderer.parseCall(step.raw ?? '', catalogueOf(this.tools.values()));
        const [call] = parsed.calls;
        if (call && parsed.calls.length === 1) extra.call = call;
        else extra.error = JSON.stringify(parsed);
        break;
      }
      default:
        throw new Error(`unknown step ${step.op}`);
    }
    const { tools } = session;
    this.snapshots.push({ segments: [...session.segments], ...(tools ? { tools } : {}), ...extra });
  }

  /** Undefined when the check holds, else what was there instead. */
  private failure(check: Check): unknown {
    const snapshot = this.snapshots[check.step ?? 0];
    if (!snapshot) return 'no such step';
    const text = snapshot.segments.join('\n');
    const results: [boolean, unknown][] = [];
    const rule = (name: string, holds: (value: never) => boolean, got: unknown) => {
      if (name in check) results.push([holds(check[name] as never), got]);
    };
    const segment = snapshot.segments.at(Number(check['segment'] ?? 0));
    rule('equals', (value) => segment === value, segment);
    rule('segment_count', (value) => snapshot.segments.length === value, snapshot.segments.length);
    rule('contains', (list: string[]) => list.every((part) => text.includes(part)), text);
    rule('not_contains', (list: string[]) => !list.some((part) => text.includes(part)), text);
    rule(
      'count',
      (counts: Record<string, number>) => Object.entries(counts).every(([part, n]) => text.split(part).length - 1 === n),
      text,
    );
    rule('append_only', ([i, j]: [number, number]) => isPrefix(this.at(i).segments, this.at(j).segments), this.all());
    rule(
      'unchanged_segments',
      ([i, j]: [number, number]) =>
        (check['segments'] as number[]).every((n) => this.at(i).segments[n] === this.at(j).segments[n]),
      this.all(),
    );
    rule(
      'same_as_tools_order',
      (order: string[]) => isDeepStrictEqual(this.bytes(), new Run(this.file, this.one, order).bytes()),
      'other bytes',
    );
    rule('same_tools_bytes', ([i, j]: [number, number]) => toolBytes(this.at(i)) === toolBytes(this.at(j)), this.all());
    const body = { tools: snapshot.tools };
    rule('pointer', (pointer: string) => isDeepStrictEqual(lookUp(body, pointer), check['value']), snapshot.tools);
    rule('pointer_absent', (pointer: string) => lookUp(body, pointer) === undefined, snapshot.tools);
    rule(
      'no_tool_with',
      (keys: string[]) => !snapshot.tools?.some((tool) => keys.every((key) => key in (tool as object))),
      snapshot.tools,
    );
    rule('result_content', (value) => isDeepStrictEqual(snapshot.delta?.content, value), snapshot.delta);
    const { verdict } = snapshot;
    rule('valid', (value) => verdict?.ok === value, verdict);
    rule('error', (value) => verdict !== undefined && !verdict.ok && verdict.code === value, verdict);
    const paths = verdict && !verdict.ok ? [...new Set(verdict.errors.map((error) => error.path))].sort() : undefined;
    rule('error_paths', (list: string[]) => isDeepStrictEqual(paths, [...list].sort()), paths);
    const args = verdict?.ok ? verdict.args : undefined;
    rule('coerced_args', (value) => isDeepStrictEqual(args, value), args);
    rule(
      'call',
      (value: object) => {
        const { id: _id, ...call } = snapshot.call ?? { id: '' };
        return isDeepStrictEqual(call, value);
      },
      snapshot.call ?? snapshot.error,
    );
    if (results.length === 0) return 'a check that this suite does not know';
    return results.find(([holds]) => !holds)?.[1];
  }

  bytes(): string {
    return JSON.stringify([this.snapshots[0]?.segments, this.snapshots[0]?.tools]);
  }

  private at(step: number): Snapshot {
    const snapshot = this.snapshots[step];
    if (!snapshot) throw new Error(`the case has no step ${step}`);
    return snapshot;
  }

  private all(): unknown {
    return this.snapshots.map(({ segments, tools }) => ({ segments, tools }));
  }
}

function runNames(one: Case): unknown[] {
  const names = new ExposedNames();
  const exposed = one.steps.map((step) => names.add(step.server ?? '', String(step.tool)));
  return one.expected.checks.filter((check) => {
    if ('exposed' in check) return exposed[check.step ?? 0] !== check['exposed'];
    if ('all_match' in check) return !exposed.every((name) => new RegExp(String(check['all_match'])).test(name));
    if ('all_distinct' in check) return new Set(exposed).size !== exposed.length;
    if ('round_trip' in check) {
      return !one.steps.every(({ server, tool }, index) => isDeepStrictEqual(names.resolve(exposed[index] ?? ''), { server, tool }));
    }
    return true;
  });
}

function isPrefix(before: string[], after: string[]): boolean {
  return before.every((segment, index) => after[index] === segment);
}

function toolBytes(snapshot: Snapshot): string {
  return JSON.stringify(snapshot.tools);
}

function lookUp(value: unknown, pointer: string): unknown {
  let at = value;
  for (const part of pointer.split('/').slice(1)) {
    if (typeof at !== 'object' || at === null) return undefined;
    at = (at as Record<string, unknown>)[part.replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  return at;
}
