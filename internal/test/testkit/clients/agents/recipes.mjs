// The recipes of docs/clients.md for coding agents: below "## Coding agents" each has a heading, files (blocks with their name
// behind the language), and commands (blocks of sh), the last of which runs the agent.

import { readFileSync } from 'node:fs';

const page = readFileSync(new URL('../../../../../docs/clients.md', import.meta.url), 'utf8');
const [, chapter] = page.split(/^## Coding agents$/m);

export const recipes = {};

for (const section of chapter.split(/^## /m)[0].split(/^### /m).slice(1)) {
  const name = section.slice(0, section.indexOf('\n'));
  const recipe = { files: [], script: '', models: [] };
  for (const [, info, block] of section.matchAll(/^```(\S+(?: \S+)?)\n(.*?)^```$/gms)) {
    const [language, file] = info.split(' ');
    if (file) recipe.files.push([file, block]);
    else if (language === 'sh') recipe.script += block;
  }
  const all = recipe.script + recipe.files.map(([, text]) => text).join('');
  recipe.models = [...new Set(all.match(/\b(gpt-4o|gpt-5|claude-sonnet-4-5)\b/g))];
  recipes[name] = recipe;
}
