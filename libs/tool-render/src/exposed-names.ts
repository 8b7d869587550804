import { createHash } from 'node:crypto';

const SERVER_ID = /^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$/;
const MAX_LENGTH = 64;

/** Whether a text can be the id of an MCP server; an id never holds `__`, so exposed names can be taken apart. */
export function isServerId(id: string): boolean {
  return SERVER_ID.test(id);
}

/**
 * The name under which providers see a tool: `server__tool`, within the limits of all of them, the same whatever else
 * is registered. A name that had to be changed ends in six digits of a hash. Built-in tools keep their own name.
 */
export function exposedName(server: string, tool: string): string {
  if (server === 'local') return tool;
  const raw = `${server}__${tool}`;
  // Units, not characters: what lies outside the basic plane becomes two underscores.
  const safe = raw.replace(/[^a-zA-Z0-9_-]/g, '_');
  if (safe === raw && safe.length <= MAX_LENGTH) return raw;
  const hash = createHash('sha256').update(`${server}\0${tool}`, 'utf8').digest('hex').slice(0, 6);
  return `${safe.slice(0, 57)}_${hash}`;
}

/** Exposed names and where they lead. */
export class ExposedNames {
  private readonly byName = new Map<string, { server: string; tool: string }>();

  /** Adds a tool and gives its exposed name; throws when another tool has that name already. */
  add(server: string, tool: string): string {
    const name = exposedName(server, tool);
    const known = this.byName.get(name);
    if (known && (known.server !== server || known.tool !== tool)) {
      throw new Error(`${server}/${tool} and ${known.server}/${known.tool} would both be called ${name}`);
    }
    this.byName.set(name, { server, tool });
    return name;
  }

  /** The server and the name there, or undefined for a name that was never added. */
  resolve(name: string): { server: string; tool: string } | undefined {
    return this.byName.get(name);
  }
}
