import type { MessageInitShape } from '@bufbuild/protobuf';
import { Inject, Injectable } from '@nestjs/common';
import { type Bus } from '@yardmaster/bus';
import { type AuditRecordSchema, messages, subjects, type TenantId } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';

type AuditEntry = Omit<MessageInitShape<typeof AuditRecordSchema>, 'atMs' | '$typeName'>;

/** Writes who decided what. What cannot be written down must not happen, so it throws while the stream is away. */
@Injectable()
export class Audit {
  constructor(@Inject(BUS) private readonly bus: Bus) {}

  /** `key` names the event: written again after a crash, it is stored once. */
  async write(tenant: TenantId, key: string, entry: AuditEntry): Promise<void> {
    await this.bus.enqueue(
      subjects.audit(tenant),
      messages.audit,
      { ...entry, atMs: BigInt(Date.now()) },
      { msgId: `audit:${key}` },
    );
  }
}
