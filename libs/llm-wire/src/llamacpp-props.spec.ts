import { expect, it } from 'vitest';
import { opensThinkInPrompt } from './llamacpp-props.js';

const props = (template: string, format = 'none') => ({
  chat_template: template,
  default_generation_settings: { params: { reasoning_format: format } },
});
const head = '{% for m in messages %}{{ m.content }}<think>{% endfor %}{% if add_generation_prompt %}';
const opens = `${head}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}`;

it.each([
  ['a string that ends with the tag', opens, true],
  ['the tag as text of the template', `${head}<|assistant|>\n<think>\n{% endif %}`, true],
  ['a block that is closed at once', `${head}{{ 'a: <think>\\n\\n</think>\\n\\n' }}{% endif %}`, false],
  ['a tag in the history only', `${head}{{ '<|im_start|>assistant\\n' }}{% endif %}`, false],
  ['no word of a generation prompt', "{{ '<think>' }}", false],
])('a template with %s', (_, template, wanted) => {
  expect(opensThinkInPrompt(props(template))).toBe(wanted);
});

it('the prompt itself says more than the template', () => {
  expect(opensThinkInPrompt(props(opens), 'user\nassistant\n<think>\n\n</think>\n\n')).toBe(false);
  expect(opensThinkInPrompt(props('anything'), 'user\nassistant\n<think>\n')).toBe(true);
});

it('a server that splits the thinking itself, or says nothing, leaves none in the text', () => {
  expect(opensThinkInPrompt(props(opens, 'deepseek'))).toBe(false);
  for (const unknown of [undefined, null, 'x', {}, { chat_template: opens }])
    expect(opensThinkInPrompt(unknown)).toBe(false);
});
