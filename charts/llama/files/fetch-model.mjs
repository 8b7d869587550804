// Fetches the model into the volume before the server starts: goes on where an earlier try stopped, checks the SHA-256,
// and gives the file its name only when it is whole. Settings: MODEL_URL, MODEL_FILE, MODEL_SHA256, TOKEN_FILE.
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';

const { MODEL_URL: url, MODEL_FILE: file, MODEL_SHA256: wanted = '', TOKEN_FILE: tokenFile } = process.env;
const TRIES = 20;
const SILENCE_MS = 60_000;

if (!url || !file || !/^[0-9a-fA-F]{64}$/.test(wanted)) {
  console.error('MODEL_URL and MODEL_FILE must be set, MODEL_SHA256 to 64 hex digits');
  process.exit(78);
}
const part = `${file}.${wanted.slice(0, 16).toLowerCase()}.part`;
// Written after the check: a whole file need not be read again at each start.
const proof = `${file}.sha256`;

async function hashOf(path) {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

const sizeOf = (path) => (existsSync(path) ? statSync(path).size : 0);

async function fetchRest() {
  const have = sizeOf(part);
  const headers = {};
  if (have > 0) headers.range = `bytes=${have}-`;
  if (tokenFile) headers.authorization = `Bearer ${readFileSync(tokenFile, 'utf8').trim()}`;
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const answer = await fetch(url, { headers, signal: silence.signal });
    // Nothing is missing any more; whether it is the right file the checksum says.
    if (answer.status === 416) return;
    if (answer.status !== 200 && answer.status !== 206) {
      const final = answer.status < 500 && ![408, 425, 429].includes(answer.status);
      throw Object.assign(new Error(`the server answered ${answer.status}`), { final });
    }
    const from = answer.status === 206 ? Number(/^bytes (\d+)-/.exec(answer.headers.get('content-range') ?? '')?.[1]) : 0;
    if (from !== 0 && from !== have) throw new Error(`asked for byte ${have}, was given byte ${from}`);
    const alive = new Transform({
      transform(chunk, _, done) {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        done(null, chunk);
      },
    });
    await pipeline(Readable.fromWeb(answer.body), alive, createWriteStream(part, { flags: from === 0 ? 'w' : 'a' }));
    const length = Number(answer.headers.get('content-length'));
    if (length > 0 && !answer.headers.get('content-encoding') && sizeOf(part) < from + length) throw new Error('the connection ended early');
  } finally {
    clearTimeout(timer);
  }
}

mkdirSync(dirname(file), { recursive: true });
if (existsSync(file)) {
  const known = existsSync(proof) ? readFileSync(proof, 'utf8').trim() : '';
  const is = known === `${wanted.toLowerCase()} ${sizeOf(file)}` ? wanted.toLowerCase() : await hashOf(file);
  if (is === wanted.toLowerCase()) {
    writeFileSync(proof, `${is} ${sizeOf(file)}\n`);
    console.log(`${file} is there and whole`);
    process.exit(0);
  }
  console.log(`${file} is another file (sha256 ${is}); it is replaced when the new one is whole`);
}
for (let attempt = 1; ; attempt++) {
  try {
    console.log(`fetching from byte ${sizeOf(part)} (try ${attempt})`);
    await fetchRest();
    const is = await hashOf(part);
    if (is === wanted.toLowerCase()) break;
    rmSync(part);
    throw Object.assign(new Error(`the file has sha256 ${is}, not ${wanted}`), { final: attempt > 1 });
  } catch (error) {
    console.error(error.cause?.message ?? error.message);
    if (error.final || attempt === TRIES) process.exit(1);
    await sleep(Math.min(30_000, 500 * 2 ** attempt) * Math.random());
  }
}
renameSync(part, file);
writeFileSync(proof, `${wanted.toLowerCase()} ${sizeOf(file)}\n`);
console.log(`${file}: ${sizeOf(file)} bytes, sha256 as expected`);
