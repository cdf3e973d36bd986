// Coding agents, as docs/clients.md says that they are set up: each must serve a turn with a tool, bear a refusal, end when a
// budget is spent, and stop the provider when it is stopped. LLMGOV is the binary, AGENTS the names of those that are run.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { counted, eventually, hold, leases, upstream } from '../harness/books.mjs';
import { keyOf, start } from '../harness/gateway.mjs';
import { recipes } from './recipes.mjs';

// What an agent does that is its own: no tools.
const agents = {
  'Claude Code': {},
  Codex: {},
  opencode: {},
  aider: { tools: false },
  Continue: {},
  Cline: {},
  'Qwen Code': {},
};
const chosen = process.env.AGENTS ? process.env.AGENTS.split(',') : Object.keys(agents);

const folder = dirname(new URL(import.meta.url).pathname);
const path = [
  'node_modules/.bin', 'node_modules/@anthropic-ai/claude-code-linux-x64', 'node_modules/opencode-linux-x64/bin', 'python/.venv/bin',
].map((place) => join(folder, place)).concat(dirname(process.execPath), process.env.PATH).join(':');

const tenant = (name, what) => `${name.toLowerCase().replace(' ', '-')}-${what}`;
const words = /the quick brown fox/;

// tenantsOf are those that an agent's cases need.
const tenantsOf = (name) => ({
  [tenant(name, 'turn')]: {},
  [tenant(name, 'slot')]: { concurrency: 1 },
  [tenant(name, 'budget')]: { budgets: [{ tokens: 10, per: 'month' }], spent: 402 },
  [tenant(name, 'abort')]: {},
});

let gateway;

before(async () => {
  gateway = await start(process.env.LLMGOV, Object.assign({}, ...chosen.map(tenantsOf)), {
    main: { models: ['gpt-4o', 'gpt-5', 'claude-sonnet-4-5', 'claude-haiku-*'], flags: ['--most-output', '12', '--output-tokens', '12'] },
    slow: { models: ['*-slow'], flags: ['--most-output', '1000', '--output-tokens', '1000', '--tokens-per-second', '4'] },
  });
});
after(() => gateway?.stop());

// Run is an agent at work, in a home of its own.
class Run {
  output = '';

  constructor(recipe, who, slow) {
    this.home = mkdtempSync(join(tmpdir(), 'llmgov-agent-'));
    const fill = (text) => recipe.models.reduce((so, model) => (slow ? so.replaceAll(model, `${model}-slow`) : so), text)
      .replaceAll('http://localhost:8080', gateway.url).replaceAll('llmg_…', keyOf(who));
    for (const [file, text] of recipe.files) {
      const place = join(this.home, file.replace(/^~\//, ''));
      mkdirSync(dirname(place), { recursive: true });
      writeFileSync(place, fill(text));
    }
    mkdirSync(join(this.home, 'work'));
    const env = { PATH: path, HOME: this.home, TERM: 'dumb', LANG: 'C.UTF-8', LITELLM_LOCAL_MODEL_COST_MAP: 'True', DISABLE_AUTOUPDATER: '1' };
    this.began = performance.now();
    this.child = spawn('bash', ['-ec', fill(recipe.script)], { cwd: join(this.home, 'work'), env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.child.stdout, this.child.stderr]) stream.setEncoding('utf8').on('data', (text) => (this.output += text));
    this.ended = new Promise((resolve) => this.child.on('close', (code) => resolve(code)));
  }

  kill(signal) {
    try {
      process.kill(-this.child.pid, signal);
    } catch {} // it has ended
  }

  // end waits until the agent ends by itself.
  async end(seconds) {
    const timer = setTimeout(() => this.kill('SIGKILL'), seconds * 1000);
    const code = await this.ended;
    clearTimeout(timer);
    this.seconds = (performance.now() - this.began) / 1000;
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
    return code;
  }
}

const calls = (who, outcome) => counted(gateway, 'llmgov_requests_total', { tenant: who, ...outcome });

// report is a row of the agents' table.
async function report(t, run, who) {
  const last = run.output.trim().split('\n').slice(-3).join(' | ').slice(-300);
  t.diagnostic(`${run.seconds.toFixed(1)} s, ${await calls(who, {})} calls: ${last}`);
}

for (const name of chosen) {
  const recipe = recipes[name];
  const { tools = true } = agents[name];
  describe(name, () => {
    test('a turn with a tool', { timeout: 120_000 }, async (t) => {
      const who = tenant(name, 'turn');
      const run = new Run(recipe, who);
      const code = await run.end(100);
      await report(t, run, who);
      assert.equal(code, 0, run.output);
      assert.match(run.output, words);
      assert.ok(await calls(who, { outcome: 'ok' }) >= (tools ? 2 : 1));
      assert.equal(await calls(who, { outcome: 'refused' }), 0);
      assert.equal((await leases(gateway, who)).length, 0);
    });

    test('a refusal is waited out', { timeout: 120_000 }, async (t) => {
      const who = tenant(name, 'slot');
      const release = await hold(gateway, who, keyOf(who));
      const run = new Run(recipe, who);
      try {
        await eventually('refusals', async () => await calls(who, { outcome: 'refused' }) > 0, true, 90);
      } finally {
        await release();
      }
      const code = await run.end(100);
      await report(t, run, who);
      assert.equal(code, 0, run.output);
      assert.match(run.output, words);
    });

    test("a budget's end ends it, and says so", { timeout: 200_000 }, async (t) => {
      const who = tenant(name, 'budget');
      await fetch(`${gateway.url}/v1/chat/completions`, {
        method: 'POST', headers: { authorization: `Bearer ${keyOf(who)}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'user', content: 'Say something.' }] }),
      });
      const run = new Run(recipe, who);
      await run.end(180);
      await report(t, run, who);
      assert.match(run.output.replace(/\s+/g, ' '), /budget of tenant \S+ is spent/); // some break their lines
      assert.ok(await calls(who, { outcome: 'refused' }) <= 10);
    });

    test('an abort stops the provider', { timeout: 120_000 }, async (t) => {
      const who = tenant(name, 'abort');
      const run = new Run(recipe, who, true);
      await eventually('leases', async () => (await leases(gateway, who)).some((lease) => lease.state === 'streaming'), true, 90);
      run.kill('SIGINT');
      await eventually('leases', async () => (await leases(gateway, who)).length, 0);
      await eventually('calls that run upstream', async () => (await upstream({ upstream: gateway.upstreams[1] })).running, 0);
      run.kill('SIGKILL');
      await run.end(10);
      await report(t, run, who);
    });
  });
}
