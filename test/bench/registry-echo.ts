// The floor of a look-up: a plain client that answers every question with the same bytes, in a process of its own.
import { connect } from '@nats-io/transport-node';

const [url, user, pass, bytes] = process.argv.slice(2) as [string, string, string, string];
const nc = await connect({ servers: url.replace('nats://', ''), user, pass });
const body = new Uint8Array(Number(bytes));
nc.subscribe('echo', { callback: (_, message) => void message.respond(body) });
await nc.flush();
console.log('ready');
