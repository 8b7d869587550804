import { type ClaudeDeferredOptions, claudeDeferred } from './claude-deferred.js';
import { type HarmonyDispatcherOptions, harmonyDispatcher } from './harmony-dispatcher.js';
import { type HarmonyUpfrontOptions, harmonyUpfront } from './harmony-upfront.js';
import {
  type NativeUpfrontOptions,
  type OpenaiDeferredOptions,
  nativeUpfront,
  openaiNativeDeferred,
} from './openai-tools.js';
import { type ContextRenderer } from './renderer.js';
import { type RollingDeveloperOptions, rollingDeveloper } from './rolling-developer.js';
import { xmlUpfront } from './xml-upfront.js';

/** A strategy with its options, as a provider entry names it. */
export type RenderSpec =
  | ({ strategy: 'claude_deferred' } & ClaudeDeferredOptions)
  | ({ strategy: 'openai_native_deferred' } & OpenaiDeferredOptions)
  | ({ strategy: 'harmony_upfront' } & HarmonyUpfrontOptions)
  | ({ strategy: 'harmony_dispatcher' } & HarmonyDispatcherOptions)
  | ({ strategy: 'rolling_developer' } & RollingDeveloperOptions)
  | { strategy: 'xml_upfront' }
  | ({ strategy: 'native_upfront' } & NativeUpfrontOptions);

/** The renderer of a strategy. */
export function createRenderer(spec: RenderSpec): ContextRenderer {
  switch (spec.strategy) {
    case 'claude_deferred':
      return claudeDeferred(spec);
    case 'openai_native_deferred':
      return openaiNativeDeferred(spec);
    case 'harmony_upfront':
      return harmonyUpfront(spec);
    case 'harmony_dispatcher':
      return harmonyDispatcher(spec);
    case 'rolling_developer':
      return rollingDeveloper(spec);
    case 'xml_upfront':
      return xmlUpfront();
    case 'native_upfront':
      return nativeUpfront(spec);
  }
}
