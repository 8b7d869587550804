import { Inject, Injectable } from '@nestjs/common';
import { type Bus } from '@yardmaster/bus';
import { Registry, Router, type TenantId, YardError } from '@yardmaster/contracts';
import { type Conversation, ConversationStore } from '@yardmaster/conversation';
import { BUS, PlatformConfigFile } from '@yardmaster/service-kit';
import { nearestName } from '@yardmaster/tool-schema';
import { ApiConfig } from '../config.js';
import type { Caller } from '../http/request.js';

/** How long the models of the providers are remembered. */
const MODELS_FOR_MS = 5_000;
/** Ids are long and say nothing: the last few are those that somebody may have meant. */
const LISTED_CONVERSATIONS = 10;
/** Most names that an error lists. */
const LISTED = 50;

/** Is what a request names really there? An unknown name is refused before anything is made. */
@Injectable()
export class KnownNames {
  private models: { names: Set<string>; open: boolean; at: number } | undefined;

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly config: ApiConfig,
    private readonly platform: PlatformConfigFile,
    private readonly store: ConversationStore,
  ) {}

  /** A conversation of the caller's tenant. Throws NOT_FOUND that names it and the newest ones that the caller may see. */
  async conversation({ tenant, roles }: Pick<Caller, 'tenant' | 'roles'>, id: string): Promise<Conversation> {
    try {
      return await this.store.getConversation(tenant, id);
    } catch (error) {
      if (!YardError.is(error) || error.class !== 'NOT_FOUND' || !roles.includes('runs:read')) throw error;
      const { items } = await this.store.listConversations(tenant, { limit: LISTED_CONVERSATIONS });
      const known = items.map((conversation) => conversation.id);
      const listed = known.length > 0 ? `The newest ones: ${known.join(', ')}.` : 'There is none yet.';
      throw new YardError('NOT_FOUND', error.code, `${error.message} ${listed}`, {
        details: { unknown: [id.slice(0, 128)], known },
      });
    }
  }

  /** Throws NOT_FOUND that names the unknown agent, model or tool and the known ones. */
  async check(
    tenant: TenantId,
    request: { agent?: string | undefined; model?: string | undefined; tools?: string[] | undefined },
  ): Promise<void> {
    const { agents } = this.platform.current;
    if (request.agent !== undefined && !Object.hasOwn(agents, request.agent))
      throw unknown('agent', 'YM-AGENT-UNKNOWN', [request.agent], Object.keys(agents));
    await Promise.all([
      request.model === undefined ? undefined : this.checkModel(tenant, request.model),
      request.tools?.length ? this.checkTools(tenant, request.tools) : undefined,
    ]);
  }

  private async checkTools(tenant: TenantId, names: string[]): Promise<void> {
    const timeoutMs = this.config.rpcTimeoutMs;
    const resolved = await this.bus.request(Registry.resolve, tenant, { names }, { timeoutMs });
    // The one name that cannot be a key of an answer.
    const missing = new Map(Object.entries(resolved.unknown));
    if (names.includes('__proto__')) missing.set('__proto__', '');
    const wrong = [...missing.keys()];
    if (wrong.length === 0) return;
    const { tools } = await this.bus.request(Registry.list, tenant, { limit: LISTED }, { timeoutMs });
    throw unknown(
      'tool',
      'YM-TOOL-UNKNOWN',
      wrong,
      tools.map(({ name }) => name),
      missing.get(wrong[0]!),
    );
  }

  private async checkModel(tenant: TenantId, model: string): Promise<void> {
    const { names, open } = await this.knownModels(tenant);
    if (open || names.has(model)) return;
    throw unknown('model', 'YM-MODEL-UNKNOWN', [model], [...names]);
  }

  /** `open`: some provider does not say which models it has, so no name can be called unknown. */
  private async knownModels(tenant: TenantId): Promise<{ names: Set<string>; open: boolean }> {
    if (this.models !== undefined && Date.now() - this.models.at < MODELS_FOR_MS) return this.models;
    const { routing, agents } = this.platform.current;
    const names = new Set<string>();
    const add = (model: string | undefined) => model && names.add(model);
    add(routing.default_model);
    for (const chains of [routing.model_fallbacks, ...Object.values(agents).map((agent) => agent.model_fallbacks)])
      for (const [model, others] of Object.entries(chains ?? {})) [model, ...others].forEach(add);
    for (const agent of Object.values(agents)) add(agent.model);
    let open = true;
    try {
      const answer = await this.bus.request(Router.providers, tenant, {}, { timeoutMs: this.config.rpcTimeoutMs });
      add(answer.defaultModel);
      for (const provider of answer.providers) provider.models.forEach(add);
      open = answer.providers.some(({ models }) => models.length === 0);
    } catch (error) {
      // A run may be queued while no router is up: it will be told about the model then.
      if (!YardError.is(error) || (error.class !== 'UNAVAILABLE' && error.class !== 'TIMEOUT')) throw error;
    }
    this.models = { names, open, at: Date.now() };
    return this.models;
  }
}

function unknown(what: string, code: string, names: string[], known: string[], nearest?: string): YardError {
  const near = nearest || nearestName(names[0]!, known);
  const listed = known.sort().slice(0, LISTED);
  return new YardError(
    'NOT_FOUND',
    code,
    `There is no ${what} ${names.map((name) => `"${name.slice(0, 128)}"`).join(', ')}` +
      `${near ? `, did you mean "${near}"?` : '.'} Known: ${listed.length > 0 ? listed.join(', ') : 'none'}.`,
    { details: { unknown: names, known: listed, ...(near && { did_you_mean: near }) } },
  );
}
