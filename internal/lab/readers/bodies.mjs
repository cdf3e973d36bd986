import { attempt, serve } from './frames.mjs';

await serve(async (text) => ({ node: await attempt(() => JSON.parse(text.toString('utf8'))) }));
