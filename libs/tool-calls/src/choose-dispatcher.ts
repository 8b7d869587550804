import { NativeToolDispatcher } from './native-tool-dispatcher.js';
import { type ToolDispatcher } from './tool-dispatcher.js';
import { type XmlDispatcherOptions, XmlToolDispatcher } from './xml-tool-dispatcher.js';

/** `auto` and an absent setting follow the provider's capability. */
export interface DispatcherConfig extends XmlDispatcherOptions {
  toolDispatcher?: 'native' | 'xml' | 'auto';
  /** Search the text of a native model for calls when it made none. */
  textFallback?: boolean;
}

/** The dispatcher for one attempt: as configured, else native where the provider can, else XML. */
export function chooseDispatcher(
  config: DispatcherConfig,
  capability: { supportsNativeTools: boolean },
): ToolDispatcher {
  const { toolDispatcher = 'auto', textFallback, ...xml } = config;
  const native = toolDispatcher === 'native' || (toolDispatcher === 'auto' && capability.supportsNativeTools);
  if (!native) return new XmlToolDispatcher(xml);
  return new NativeToolDispatcher(textFallback ? xml : undefined);
}
