// The processes that the clients talk to: one real gateway with config files of
// its own, in front of one simulated model server, both on ports that are free.

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const upstreamKey = 'sk-upstream-must-not-leak';

// start runs both, and returns when both listen. tenants is by name what each
// may do, as a policy file says it, but for the key. Each pool has a model server
// with flags of its own; upstream is the first one's address. settings are more of the config.
export async function start(binary, tenants, pools = {
  main: { models: ['gpt-4o', 'claude-sonnet', 'text-embedding-3-small'], flags: ['--output-tokens', '12'] },
}, settings = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'llmgov-clients-'));
  const mocks = Object.values(pools).map(({ flags }) => new Process(binary, ['mock', '--listen', '127.0.0.1:0', '--api-key', upstreamKey, ...flags]));
  let serve;
  const stop = async () => {
    const ended = [await serve?.end(), ...await Promise.all(mocks.map((mock) => mock.end()))];
    rmSync(dir, { recursive: true, force: true });
    return ended.flat().filter(Boolean);
  };
  try {
    const addresses = await Promise.all(mocks.map(async (mock) => (await mock.says(/(http:\S+)\/v1,/))[1]));
    writeConfig(dir, addresses, pools, tenants, settings);
    const listen = ['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0'];
    serve = new Process(binary, ['serve', '-c', join(dir, 'llmgov.yaml'), ...listen]);
    const [, url, admin] = await serve.says(/listens on (http:\S+), admin on (http:\S+)/);
    return { url, admin, upstream: addresses[0], upstreams: addresses, stop };
  } catch (err) {
    await stop();
    throw err;
  }
}

// keyOf is a tenant's key.
export const keyOf = (tenant) => `sk-tenant-must-not-leak-${tenant}`;

// YAML reads JSON, so nothing here needs a YAML writer.
function writeConfig(dir, addresses, pools, tenants, settings) {
  const policies = {};
  for (const [name, rules] of Object.entries(tenants)) {
    const hash = createHash('sha256').update(keyOf(name)).digest('hex');
    policies[name] = { ...rules, keys: [`sha256:${hash}`] };
  }
  mkdirSync(join(dir, 'tenants'));
  writeFileSync(join(dir, 'tenants', 'all.yaml'), JSON.stringify({ tenants: policies }));
  writeFileSync(join(dir, 'llmgov.yaml'), JSON.stringify({
    upstreams: Object.fromEntries(Object.keys(pools).map((name, i) => [name, { base_url: `${addresses[i]}/v1`, api_key: upstreamKey }])),
    timeouts: { drain: '1s' }, // a call that was lost holds nobody up
    // All of the minute at once: pacing is not what these tests are about.
    pools: Object.fromEntries(Object.entries(pools).map(([name, { models }]) => [
      name, { models, upstream: name, rpm: 10000, tpm: 10000000, burst: '60s', concurrency: 100 },
    ])),
    ...settings,
  }));
}

// Process is a child whose output is kept. The console's tests have it too.
export class Process {
  output = '';

  constructor(binary, args, options) {
    this.name = args[0];
    this.child = spawn(binary, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    this.exited = new Promise((resolve) => this.child.on('close', resolve));
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.output += text;
        this.heard?.();
      });
    }
    // A test run that is interrupted leaves nothing behind.
    process.on('exit', () => this.child.kill('SIGKILL'));
  }

  // says waits until the output matches.
  async says(pattern) {
    const gone = this.exited.then((code) => {
      throw new Error(`llmgov ${this.name} ended with ${code}:\n${this.output}`);
    });
    gone.catch(() => {}); // later ends are nobody's who waits here
    for (;;) {
      const match = this.output.match(pattern);
      if (match) return match;
      await Promise.race([gone, new Promise((resolve) => (this.heard = resolve))]);
    }
  }

  // end stops the process as somebody at its terminal does, without a grace, and returns what was wrong with it.
  async end() {
    this.child.kill('SIGINT');
    const code = await this.exited;
    const problems = [];
    if (code !== 0) problems.push(`llmgov ${this.name} ended with ${code}:\n${this.output}`);
    if (this.output.includes('must-not-leak')) problems.push(`llmgov ${this.name} shows a key:\n${this.output}`);
    if (this.output.includes('panic')) problems.push(`llmgov ${this.name} panicked:\n${this.output}`);
    return problems;
  }
}
