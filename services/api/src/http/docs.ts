import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { FastifyInstance } from 'fastify';
import { SCHEMAS } from './schemas.js';

/** `/openapi.json` and `/docs`. The document is made when it is first asked for: most processes never are. */
export function installDocs(app: NestFastifyApplication, fastify: FastifyInstance): void {
  let document: OpenAPIObject | undefined;
  const make = () => (document ??= openApiDocument(app));
  fastify.get('/openapi.json', async (_request, reply) => reply.send(make()));
  SwaggerModule.setup('docs', app, make, { raw: false, customSiteTitle: 'Yardmaster API' });
}

/** The description of all routes, OpenAPI 3.1. */
export function openApiDocument(app: NestFastifyApplication): OpenAPIObject {
  const config = new DocumentBuilder()
    .setTitle('Yardmaster')
    .setDescription(
      'Runs AI agents: runs, their events, conversations, tools, providers and the fleet. Errors are RFC 9457 problems.',
    )
    .setVersion('1')
    .setOpenAPIVersion('3.1.0')
    .addBearerAuth({ type: 'http', scheme: 'bearer', description: 'An API key: ym_<tenant>_<id>_<secret>' })
    .build();
  const document = SwaggerModule.createDocument(app, config);
  document.components = {
    ...document.components,
    schemas: {
      ...document.components?.schemas,
      ...(SCHEMAS as unknown as NonNullable<OpenAPIObject['components']>['schemas']),
    },
  };
  const problem = {
    description: 'What went wrong; the code is explained at its `type`.',
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  };
  for (const path of Object.values(document.paths))
    for (const operation of [path.get, path.post, path.put, path.delete])
      if (operation !== undefined) operation.responses = { ...operation.responses, default: problem };
  return document;
}
