import { type CanActivate, type ExecutionContext, Injectable, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { type Role, YardError } from '@yardmaster/contracts';
import type { ApiRequest } from '../http/request.js';

const NEEDS = 'yardmaster.needs';

/** The role that a route asks for. */
export const Needs = (role: Role) => SetMetadata(NEEDS, role);

/** Lets a request through when its key has the role of the route. */
@Injectable()
export class RolesGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    const role = this.reflector.getAllAndOverride<Role | undefined>(NEEDS, [context.getHandler(), context.getClass()]);
    if (role === undefined) return true;
    const { caller } = context.switchToHttp().getRequest<ApiRequest>();
    if (!caller.roles.includes(role))
      throw new YardError('DENIED', 'YM-ROLE', `This needs a key with the role ${role}.`, {
        details: { needs: role, roles: caller.roles },
      });
    return true;
  }
}
