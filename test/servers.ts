/** Global set-up of the tests: refuses a Node older than the one that the project pins. */
export default function setup(): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major < 22 || (major === 22 && minor < 19))
    throw new Error(`Node 22.19 or newer is needed, this is ${process.versions.node}: run the tests with "npm test".`);
}
