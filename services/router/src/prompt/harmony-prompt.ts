import type { ConversationMessage, ContentPart } from '@yardmaster/contracts';
import { UnsendableRequest } from '@yardmaster/llm-wire';
import { createRenderer } from '@yardmaster/tool-render';

const renderer = createRenderer({ strategy: 'harmony_upfront' });

/** What the model begins its answer with is not part of the prompt: it is read as the answer's first mark. */
export const HARMONY_CUE = '<|start|>assistant';

/** Without this llama.cpp drops the marks of its answer, and nobody could tell thinking, text and calls apart. */
export const HARMONY_TOKENS = [
  '<|start|>',
  '<|end|>',
  '<|message|>',
  '<|channel|>',
  '<|constrain|>',
  '<|return|>',
  '<|call|>',
] as const;

/** What stands before the conversation: the same bytes for the same system text and tools (drawn already), so no date. */
export function harmonyFront(system: string, tools: string): string {
  const lines = [
    'You are ChatGPT, a large language model trained by OpenAI.',
    'Knowledge cutoff: 2024-06',
    '',
    'Reasoning: medium',
    '',
    '# Valid channels: analysis, commentary, final. Channel must be included for every message.',
    ...(tools === '' ? [] : ["Calls to these tools must go to the commentary channel: 'functions'."]),
  ];
  const sections = [system === '' ? '' : `# Instructions\n\n${system}`, tools].filter((text) => text !== '');
  const front = `<|start|>system<|message|>${lines.join('\n')}<|end|>`;
  return sections.length === 0 ? front : `${front}<|start|>developer<|message|>${sections.join('\n\n')}<|end|>`;
}

/** One item of the canonical history as gpt-oss writes and reads it. Throws UnsendableRequest for images. */
export function harmonyItem(item: ConversationMessage, target: { provider: string; model: string }): string {
  switch (item.type) {
    case 'chat':
      return renderer.formatMessage(item.role === 'system' ? 'developer' : item.role, textOnly(item.content));
    case 'assistant_tool_calls': {
      const isOwn = item.served?.provider === target.provider && item.served.model === target.model;
      const thinking = isOwn ? (item.reasoning_content ?? '') : '';
      return [
        thinking === '' ? '' : inChannel('analysis', thinking),
        item.text === null || item.text === '' ? '' : inChannel('commentary', item.text),
        ...item.tool_calls.map(({ name, arguments: text }) => call(name, text)),
      ].join('');
    }
    case 'tool_results':
      return item.results
        .map(({ name, content, ok = true }) =>
          renderer.formatResult(name ?? 'unknown', { text: ok ? content : `Error: ${content}`, ok }),
        )
        .join('');
  }
}

/** The renderer writes final messages only; the text is opened by it and the channel changed behind it. */
function inChannel(channel: 'analysis' | 'commentary', text: string): string {
  const front = `${HARMONY_CUE}<|channel|>`;
  return `${front}${channel}${renderer.formatMessage('assistant', text).slice(`${front}final`.length)}`;
}

/** Marks within the arguments are escaped as JSON allows: no string in them can end the call. */
function call(name: string, text: string): string {
  const safeName = name.replace(/[^\w.-]/g, '_');
  return `${HARMONY_CUE}<|channel|>commentary to=functions.${safeName} <|constrain|>json<|message|>${text.replaceAll('<|', '\\u003c|')}<|call|>`;
}

function textOnly(content: string | ContentPart[]): string {
  if (typeof content === 'string') return content;
  return content
    .map((part) => {
      if (part.type === 'text') return part.text;
      throw new UnsendableRequest('no_vision', 'raw completion takes no images; use a provider that can see');
    })
    .join('');
}
