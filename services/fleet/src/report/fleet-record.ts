import { create, fromJsonString, type MessageInitShape, toJsonString } from '@bufbuild/protobuf';
import type { Bus, KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, type FleetViewResponse, FleetViewResponseSchema } from '@yardmaster/contracts';

/** The one key of `ym_fleet`: what the leader saw and decided last. */
const KEY = 'state';

/** The leader writes it, every replica reads it. */
export class FleetRecord {
  private constructor(
    private readonly bus: Bus,
    private readonly snapshot: KvSnapshot<FleetViewResponse>,
  ) {}

  static async open(bus: Bus): Promise<FleetRecord> {
    const decode = (bytes: Uint8Array) =>
      fromJsonString(FleetViewResponseSchema, new TextDecoder().decode(bytes), { ignoreUnknownFields: true });
    return new FleetRecord(bus, await bus.watch(BUCKETS.fleet, decode));
  }

  /** Empty when nobody ever led. */
  get current(): FleetViewResponse {
    return this.snapshot.get(KEY) ?? create(FleetViewResponseSchema);
  }

  async write(view: MessageInitShape<typeof FleetViewResponseSchema>): Promise<void> {
    await this.bus
      .kv(BUCKETS.fleet)
      .put(KEY, toJsonString(FleetViewResponseSchema, create(FleetViewResponseSchema, view)));
  }
}
