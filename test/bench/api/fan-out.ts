// Floor of event streams: one plain subscription, each message written to every connection as it comes.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from '@nats-io/transport-node';

const [url = '', subject = ''] = process.argv.slice(2);
const { host, username: user, password: pass } = new URL(url);
const nc = await connect({ servers: host, user, pass });
const open = new Set<ServerResponse>();
const server = createServer((_request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write('\n');
  open.add(response);
  response.on('close', () => open.delete(response));
});
nc.subscribe(subject, {
  callback: (_error, message) => {
    const frame = `data: ${message.string()}\n\n`;
    for (const response of open) response.write(frame);
  },
});
await nc.flush();
server.listen(0, '127.0.0.1', () =>
  console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })),
);
