import { bringUp, runningStack } from './stack/bring-up.js';
import { stackFile } from './stack/checkout.js';
const running = await bringUp({ provider: 'demo', onProgress: (e) => console.log(JSON.stringify(e)) });
console.log(running.modelWords, stackFile(), runningStack());
process.on('SIGTERM', () => void running.stop().then(() => process.exit(0)));
process.on('SIGINT', () => void running.stop().then(() => process.exit(0)));
