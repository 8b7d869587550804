type Schema = Record<string, unknown>;

/**
 * The type text that gpt-oss was trained on, byte for byte as openai/harmony 0.0.8 prints it, with its oddities: the
 * description of an object twice, `"a" | "b"[]` for a list of an enum, defaults of enums without quotes.
 */
export function typeText(schema: unknown, indent: string): string {
  if (!isObject(schema)) return 'any';
  const oneOf = schema['oneOf'];
  if (Array.isArray(oneOf)) return oneOf.map((variant) => `\n${indent} | ${variantText(variant, indent)}`).join('');
  const type = schema['type'];
  if (Array.isArray(type)) {
    const names = type.filter((name): name is string => typeof name === 'string');
    if (names.length > 0) return names.map((name) => (name === 'integer' ? 'number' : name)).join(' | ');
  }
  switch (type) {
    case 'object':
      return objectText(schema, indent);
    case 'string': {
      const members = textMembers(schema);
      return members.length > 0 ? members.map((member) => `"${member}"`).join(' | ') : 'string';
    }
    case 'number':
    case 'integer':
      return 'number';
    case 'boolean':
      return 'boolean';
    case 'array':
      return schema['items'] === undefined ? 'Array<any>' : `${typeText(schema['items'], indent)}[]`;
    default:
      return 'any';
  }
}

function variantText(variant: unknown, indent: string): string {
  const comments: string[] = [];
  if (isObject(variant)) {
    if (typeof variant['description'] === 'string') comments.push(variant['description']);
    const value = variant['default'];
    // Here, unlike below a property, the default of an enum keeps its quotes.
    if (value !== undefined) comments.push(`default: ${quotedDefault(value, !isEnum(variant))}`);
  }
  return nullableText(variant, `${indent}   `) + trailing(comments);
}

function objectText(schema: Schema, indent: string): string {
  let out = typeof schema['description'] === 'string' ? `${indent}// ${schema['description']}\n` : '';
  out += '{\n';
  const properties = isObject(schema['properties']) ? schema['properties'] : {};
  const required = new Set(Array.isArray(schema['required']) ? (schema['required'] as unknown[]) : []);
  for (const [key, value] of Object.entries(properties)) {
    const property = isObject(value) ? value : {};
    out += comments(property, indent);
    const name = `${indent}${key}${required.has(key) ? '' : '?'}:`;
    if (Array.isArray(property['oneOf'])) out += unionProperty(property, name, indent);
    else out += `${name} ${nullableText(value, `${indent}    `)},${trailing(defaultComment(property))}\n`;
  }
  return `${out}${indent}}`;
}

function comments(property: Schema, indent: string): string {
  let out = '';
  const { title, description, examples } = property;
  if (typeof title === 'string') out += `${indent}// ${title}\n${indent}//\n`;
  if (property['oneOf'] === undefined && typeof description === 'string') out += `${indent}// ${description}\n`;
  if (Array.isArray(examples) && examples.length > 0) {
    out += `${indent}// Examples:\n`;
    for (const example of examples) if (typeof example === 'string') out += `${indent}// - "${example}"\n`;
  }
  return out;
}

function unionProperty(property: Schema, name: string, indent: string): string {
  const variants = property['oneOf'] as unknown[];
  const description = typeof property['description'] === 'string' ? property['description'] : undefined;
  const [first] = variants;
  const above = description !== undefined && !(isObject(first) && first['description'] === description);
  let out = above ? `${indent}// ${description}\n` : '';
  for (const comment of defaultComment(property)) out += `${indent}// ${comment}\n`;
  out += `${name}\n`;
  for (const [index, variant] of variants.entries()) {
    const notes: string[] = [];
    if (isObject(variant)) {
      const own = variant['description'];
      if (!(index === 0 && above) && typeof own === 'string' && own !== description) notes.push(own);
      notes.push(...defaultComment(variant));
    }
    out += `${indent} | ${nullableText(variant, `${indent}   `)}${trailing(notes)}\n`;
  }
  return `${out}${indent},\n`;
}

function nullableText(schema: unknown, indent: string): string {
  const text = typeText(schema, indent);
  return isObject(schema) && schema['nullable'] === true && !text.includes('null') ? `${text} | null` : text;
}

function defaultComment(schema: Schema): string[] {
  const value = schema['default'];
  if (value === undefined) return [];
  if (typeof value === 'string' && isEnum(schema)) return [`default: ${value}`];
  return [`default: ${quotedDefault(value, true)}`];
}

/** Texts stand between quotes as they are, without escapes; other values as JSON. */
function quotedDefault(value: unknown, plainText: boolean): string {
  return typeof value === 'string' && plainText ? `"${value}"` : JSON.stringify(value);
}

function trailing(notes: readonly string[]): string {
  return notes.length > 0 ? ` // ${notes.join(' ')}` : '';
}

function isEnum(schema: Schema): boolean {
  return Array.isArray(schema['enum']) && schema['enum'].length > 0;
}

function textMembers(schema: Schema): string[] {
  const members = schema['enum'];
  return Array.isArray(members) ? members.filter((member): member is string => typeof member === 'string') : [];
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
