import { Controller } from '@nestjs/common';
import { Serves } from '@yardmaster/bus/nest';
import { Fleet, type FleetViewResponse } from '@yardmaster/contracts';
import { FleetService } from '../fleet.service.js';

@Controller()
export class FleetController {
  constructor(private readonly fleet: FleetService) {}

  @Serves(Fleet.view)
  view(): FleetViewResponse {
    return this.fleet.record.current;
  }
}
