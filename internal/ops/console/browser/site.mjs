// What the console shows: real gateways with files of their own, a simulated model server,
// load from `llmgov load`, and a browser.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chownSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer, connect } from 'node:net';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

import { Process } from '../../../test/testkit/clients/harness/gateway.mjs';

const binary = process.env.LLMGOV;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
export const images = new URL('../../../../docs/images/', import.meta.url).pathname;

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const keyOf = (tenant) => `sk-of-${tenant}`;
export const keysOf = (tenant) => [`sha256:${createHash('sha256').update(keyOf(tenant)).digest('hex')}`];

// Site is what runs for one test file; stop ends all of it.
export class Site {
  ends = [];
  dir = mkdtempSync(join(tmpdir(), 'llmgov-console-'));

  async stop() {
    const problems = [];
    for (const end of this.ends.reverse()) problems.push(await end());
    rmSync(this.dir, { recursive: true, force: true });
    assert.deepEqual(problems.flat().filter(Boolean), []);
  }

  process(args, options) {
    const p = new Process(binary, args, options);
    this.ends.push(() => p.end());
    return p;
  }

  async mock(...flags) {
    const [, url] = await this.process(['mock', '--listen', '127.0.0.1:0', ...flags]).says(/(http:\S+)\/v1,/);
    return url;
  }

  // write writes files, given by their paths; objects become JSON, which YAML reads.
  write(folder, files) {
    for (const [path, content] of Object.entries(files)) {
      const file = join(this.dir, folder, path);
      mkdirSync(join(file, '..'), { recursive: true });
      writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
    }
    return join(this.dir, folder);
  }

  async gateway(folder, files, ...flags) {
    const dir = this.write(folder, files);
    const p = this.process(['serve', '-c', 'llmgov.yaml', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', ...flags], { cwd: dir });
    const [, url, admin] = await p.says(/listens on (http:\S+), admin on (http:\S+)/);
    return { url, admin, dir };
  }

  // load sends calls until the site is stopped. tenants are as llmgov load reads them.
  load(url, tenants) {
    const dir = this.write(`load-${this.ends.length}`, { 'tenants.yaml': { tenants } });
    const child = spawn(binary, ['load', '--url', url, '--tenants', join(dir, 'tenants.yaml'), '--for', '20m', '--json'], { stdio: 'ignore' });
    const gone = new Promise((resolve) => child.on('close', () => resolve()));
    this.ends.push(() => { child.kill('SIGKILL'); return gone; });
  }

  async browser() {
    const b = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
    this.ends.push(() => b.close());
    return b;
  }

  // postgres starts a server that listens on no port, and returns its socket: no other program can be first there.
  async postgres() {
    const versions = '/usr/lib/postgresql';
    const bin = join(versions, readdirSync(versions).sort((a, b) => a - b).at(-1), 'bin');
    const home = mkdtempSync(join(tmpdir(), 'llmgov-postgres-'));
    const as = { cwd: home };
    if (process.getuid() === 0) { // as whom it refuses to run
      [as.uid, as.gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' })));
      chownSync(home, as.uid, as.gid);
    }
    const data = join(home, 'data');
    execFileSync(join(bin, 'initdb'), ['-D', data, '-U', 'llmgov', '-A', 'trust', '--no-sync', '-E', 'UTF8', '--locale=C'], { ...as, stdio: 'ignore' });
    const child = spawn(join(bin, 'postgres'), ['-D', data, '-k', home, '-c', 'listen_addresses=', '-c', 'fsync=off'], { ...as, stdio: 'ignore' });
    const gone = new Promise((resolve) => child.on('close', resolve));
    this.ends.push(async () => {
      child.kill('SIGQUIT');
      await gone;
      rmSync(home, { recursive: true, force: true });
    });
    const ready = () => spawnSync(join(bin, 'pg_isready'), ['-h', home], { stdio: 'ignore' }).status === 0;
    await until('postgres accepts connections', ready);
    return join(home, '.s.PGSQL.5432');
  }

  // cable leads from a port to a socket, and can be cut and mended.
  async cable(socket) {
    const open = new Set();
    let whole = true;
    const server = createServer((from) => {
      const to = connect(socket);
      for (const [one, other] of [[from, to], [to, from]]) {
        open.add(one);
        one.on('error', () => {}).on('close', () => { open.delete(one); other.destroy(); });
        one.on('data', (data) => { if (whole) other.write(data); }); // cut, it swallows all
      }
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    this.ends.push(() => { for (const s of open) s.destroy(); server.close(); });
    return { port: server.address().port, cut: () => { whole = false; }, mend: () => { whole = true; for (const s of open) s.destroy(); } };
  }
}

// until waits for what must become true.
export async function until(what, holds, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    if (await holds()) return;
    if (Date.now() > end) assert.fail(`never: ${what}`);
    await sleep(100);
  }
}

// reads waits until a text matches, and says how it reads if it never does.
export async function reads(read, pattern) {
  let last;
  await until(`no match of ${pattern}`, async () => pattern.test(last = await read())).catch((error) => {
    error.message += ` in ${JSON.stringify(last)}`;
    throw error;
  });
}

// chat sends one call; it answers status and request id.
export async function chat(url, tenant, { model = 'gpt-4o', max = 100, id } = {}) {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${keyOf(tenant)}`, 'content-type': 'application/json', ...(id && { 'x-request-id': id }) },
    body: JSON.stringify({ model, max_tokens: max, messages: [{ role: 'user', content: 'Say hello.' }] }),
  });
  await answer.text();
  return { status: answer.status, id: answer.headers.get('x-request-id') };
}

// Page is the console in a tab, which fails the test for whatever the browser complains of.
export async function open(browser, admin, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, deviceScaleFactor: 1, ...options });
  const page = await context.newPage();
  page.complaints = [];
  page.on('console', (m) => { if (['error', 'warning'].includes(m.type())) page.complaints.push(m.text()); });
  page.on('pageerror', (e) => page.complaints.push(e.stack));
  page.on('request', (r) => { if (!r.url().startsWith(admin)) page.complaints.push(`asked elsewhere: ${r.url()}`); });
  await page.goto(`${admin}/console/`);
  return page;
}

// go leads to a view, and returns when the page has drawn it: its own handler came first.
export const go = (page, hash) => page.evaluate(async (to) => {
  if (location.hash === to) return;
  const heard = new Promise((resolve) => addEventListener('hashchange', resolve, { once: true }));
  location.hash = to;
  await heard;
}, hash);

// shows waits until the page has drawn a view, which its title tells; the address changes before.
export const shows = (page, title) => page.waitForFunction((t) => document.title === `${t} · llmgov`, title);

// accessible runs axe, which finds what cannot be read or reached. It comes by the debugger's
// door, for the page's own policy lets no foreign script in.
export async function accessible(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => (await globalThis.axe.run(document)).violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html} ${n.any.map((a) => a.message).join()}`).join(' | ')}`));
  assert.deepEqual(found, []);
}

// picture is taken where PICTURES asks for them, of the page down to a height.
export async function picture(page, name, height = page.viewportSize().height) {
  if (process.env.PICTURES) await page.screenshot({ clip: { x: 0, y: 0, width: page.viewportSize().width, height }, path: join(images, `console-${name}.png`), animations: 'disabled' });
}
