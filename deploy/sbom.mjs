// The bill of materials of an image (CycloneDX 1.5): node deploy/sbom.mjs FOLDER, where FOLDER has the installed packages.
// From what lies there, not from `npm sbom`: with workspaces that leaves out packages which are installed and used
// (undici, protobuf and eleven more of the router). The same packages give the same bytes. Debian's packages are listed
// by Debian itself, in /var/lib/dpkg/status.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';

const root = process.argv[2] ?? '.';
const read = (file) => JSON.parse(readFileSync(file, 'utf8'));
const lock = read(join(root, 'package-lock.json')).packages;
const components = new Map();

/** Every package below a node_modules folder, and below the node_modules folders of those. */
function walk(folder) {
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder)) {
    if (name.startsWith('.')) continue;
    if (name.startsWith('@')) for (const inner of readdirSync(join(folder, name))) add(join(folder, name, inner));
    else add(join(folder, name));
  }
}

function add(path) {
  if (!existsSync(join(path, 'package.json'))) return;
  const { name, version, license, description } = read(join(path, 'package.json'));
  const locked = lock[relative(root, path)] ?? {};
  const [algorithm, digest] = locked.integrity?.split('-') ?? [];
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
  components.set(purl, {
    type: 'library',
    'bom-ref': purl,
    name,
    version,
    ...(description === undefined ? {} : { description }),
    ...(typeof license === 'string'
      ? { licenses: [/[ (]/.test(license) ? { expression: license } : spdx(license)] }
      : {}),
    purl,
    ...(digest === undefined
      ? {}
      : {
          hashes: [{ alg: algorithm.replace('sha', 'SHA-'), content: Buffer.from(digest, 'base64').toString('hex') }],
        }),
  });
  // A link to a lib or a service of this repository: its own packages are found below its folder.
  if (locked.link !== true) walk(join(path, 'node_modules'));
}

/** What is no identifier of SPDX's list is a name, or the document is invalid. */
const spdx = (license) => ({
  license: /^[A-Za-z0-9.+-]+$/.test(license) && license !== 'UNLICENSED' ? { id: license } : { name: license },
});

walk(join(root, 'node_modules'));
for (const part of ['libs', 'services'])
  for (const name of existsSync(join(root, part)) ? readdirSync(join(root, part)) : [])
    walk(join(root, part, name, 'node_modules'));
const node = { type: 'platform', 'bom-ref': 'node', name: 'node', version: process.versions.node };
components.set('node', { ...node, purl: `pkg:generic/node@${process.versions.node}` });

const { name, version } = read(join(root, 'package.json'));
const service = process.env.SERVICE;
const about = service === undefined ? name : `${name}/${service}`;
console.log(
  JSON.stringify(
    {
      bomFormat: 'CycloneDX',
      specVersion: '1.5',
      version: 1,
      metadata: { component: { type: 'application', 'bom-ref': about, name: about, version } },
      components: [...components.values()].sort((a, b) => (a['bom-ref'] < b['bom-ref'] ? -1 : 1)),
    },
    undefined,
    1,
  ),
);
