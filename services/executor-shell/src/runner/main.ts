import { serveRunner } from './serve-runner.js';

await serveRunner(process.env);
