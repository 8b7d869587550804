/** The ways in which tool definitions reach a model (`render`). */
export const RENDER_STRATEGIES = [
  'claude_deferred',
  'openai_native_deferred',
  'harmony_upfront',
  'harmony_dispatcher',
  'rolling_developer',
  'xml_upfront',
  'native_upfront',
] as const;

/** Forms in which models write calls as text (`dialect`). The first three are read in every text answer. */
export const TEXT_DIALECTS = [
  'hermes',
  'qwen_xml',
  'fenced',
  'harmony',
  'pythonic',
  'invoke',
  'glm',
  'kimi',
  'mistral',
  'deepseek',
  'token_json',
] as const;
