import { YardError } from '@yardmaster/contracts';
import type { Caller } from '../http/request.js';

/** The tenant of the path when it is the caller's; another one does not exist for this caller. */
export function own(caller: Caller, tenant: string): Caller['tenant'] {
  if (tenant !== caller.tenant)
    throw new YardError('NOT_FOUND', 'YM-TENANT-UNKNOWN', `There is no tenant ${tenant.slice(0, 60)}.`);
  return caller.tenant;
}
