// The blocks of JavaScript in a document, as programs.

import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';

// snippets are the blocks, each under the heading that it stands below.
export function snippets(path) {
  const found = [];
  let heading;
  for (const [, title, block] of readFileSync(path, 'utf8').matchAll(/^## ([^\n]*)$|^```js\n(.*?)^```$/gms)) {
    if (title) heading = title;
    if (block) found.push({ heading, block });
  }
  return found;
}

// run runs a block with the gateway's address and a key in place of those in it, and
// returns what it prints. It is written where it finds the packages.
export async function run({ heading, block }, url, key) {
  const folder = new URL('../node_modules/.snippets/', import.meta.url);
  mkdirSync(folder, { recursive: true });
  const file = new URL(`${heading.replace(/\W/g, '')}.mjs`, folder);
  writeFileSync(file, block.replace('http://localhost:8080', url).replace('llmg_…', key));
  return (await promisify(execFile)(process.execPath, [file.pathname])).stdout;
}
