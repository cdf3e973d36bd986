// The contract: what each client must see of the gateway, and the gateway's books
// of it. A client says in clients/ how it is called, and what it makes of a refusal.

import assert from 'node:assert/strict';
import { describe, test as run } from 'node:test';

import { counted, eventually, hold, leases, upstream } from './harness/books.mjs';
import { failure } from './harness/failure.mjs';
import { keyOf } from './harness/gateway.mjs';
import * as said from './harness/prompt.mjs';
import { wire } from './harness/wire.mjs';

// A client that waits for what never comes, or for next month, has failed.
const test = (name, body) => run(name, { timeout: 60_000 }, body);

const usage = (client) => ({ input: said.promptTokens[client.api], output: said.pieces.length });

// tenantsOf are the tenants that a client's cases need.
export function tenantsOf(client) {
  return {
    [client.tenant]: { rpm: 1000, tpm: 1000000 },
    [`${client.tenant}-slot`]: { concurrency: 1 },
    [`${client.tenant}-again`]: { concurrency: 1 },
    [`${client.tenant}-budget`]: { budgets: [{ tokens: 10, per: 'month' }] },
  };
}

// contract runs every case with a client. The gateway is there when they run.
export function contract(client, gateway) {
  const open = (tenant, { retries, ...how } = {}) => {
    const w = wire(how);
    return { attempts: w.attempts, client: client.connect({ url: gateway().url, key: keyOf(tenant), fetch: w.fetch, retries }) };
  };
  describe(client.name, () => {
    test('plain', () => plain(client, open));
    test('stream', () => streamed(client, open, gateway(), true));
    if (client.usageIsOptional) {
      test('stream whose usage nobody asked for', () => streamed(client, open, gateway(), false));
    }
    test('tool round trip', () => tools(client, open, false));
    test('tool round trip, streamed', () => tools(client, open, true));
    if (client.embed) test('embeddings', () => embeddings(client, open));
    if (client.models) test('models', () => models(client, open));
    test('abort in mid-stream', () => abort(client, open, gateway()));
    test('error event in mid-stream', () => broken(client, open, gateway(), { error_after: 5 }, client.broken));
    test('hang-up in mid-stream', () => broken(client, open, gateway(), { hangup_after: 5 }, { ...client.broken, message: /upstream/i }));
    test('wrong key', () => wrongKey(client, open));
    test('429 is seen as such', () => seen(client, open, gateway()));
    test('429 is come back from', () => comeBack(client, open, gateway()));
    test('spent budget', () => spent(client, open, gateway()));
    for (const [name, body] of Object.entries(client.own ?? {})) test(name, () => body(open, gateway()));
  });
}

async function plain(client, open) {
  const answer = await client.plain(open(client.tenant).client);
  assert.deepEqual(answer, { text: said.text, usage: usage(client) });
}

// drain reads a stream: its pieces, what it tells of its usage, and its error.
async function drain(stream) {
  const got = { pieces: [], usage: null, error: null };
  try {
    for (;;) {
      const { value, done } = await stream.next();
      if (done) return { ...got, usage: value };
      got.pieces.push(value);
    }
  } catch (error) {
    return { ...got, error };
  }
}

async function streamed(client, open, gw, withUsage) {
  const books = { tenant: client.tenant, kind: 'output' };
  const before = await counted(gw, 'llmgov_tokens_total', books);
  const { client: c, attempts } = open(client.tenant);
  const got = await drain(client.stream(c, { withUsage }));
  assert.ifError(got.error);
  if (client.usageIsAsked) assert.equal(attempts[0].request.body.stream_options?.include_usage ?? false, withUsage);
  assert.deepEqual(got.pieces, said.pieces);
  assert.deepEqual(got.usage, withUsage ? usage(client) : null);
  await eventually('charged output tokens', async () => await counted(gw, 'llmgov_tokens_total', books) - before, said.pieces.length);
}

async function tools(client, open, streamed) {
  const { client: c, attempts } = open(client.tenant);
  const got = await client.tools(c, streamed);
  assert.deepEqual(got, { name: said.speak.name, args: said.speak.args, text: said.text });
  assert.deepEqual(attempts.map((a) => [a.status, Boolean(a.request.body.stream)]), [[200, streamed], [200, streamed]]);
}

async function embeddings(client, open) {
  const got = await client.embed(open(client.tenant).client, ['one', 'two']);
  assert.equal(got.vectors.length, 2);
  got.vectors.forEach((vector, i) => {
    assert.deepEqual(vector.map(Math.fround), said.vector(i));
  });
  if ('tokens' in got) assert.equal(got.tokens, 2);
}

async function models(client, open) {
  const ids = await client.models(open(client.tenant).client);
  assert.deepEqual(ids.sort(), ['claude-sonnet', 'gpt-4o', 'text-embedding-3-small']);
}

async function abort(client, open, gw) {
  await eventually('calls that run upstream', async () => (await upstream(gw)).running, 0); // held ones of cases before
  const before = await upstream(gw);
  const gone = new AbortController();
  const stream = client.stream(open(client.tenant, { hook: { stall_after: 3 } }).client, { signal: gone.signal });
  for (const piece of said.pieces.slice(0, 3)) {
    assert.deepEqual(await stream.next(), { value: piece, done: false });
  }
  // What has come was not kept back until the end: the call still runs.
  assert.equal((await upstream(gw)).running, 1);
  assert.equal((await leases(gw, client.tenant)).length, 1);
  gone.abort();
  const { error } = await drain(stream);
  assert.equal(error && error.name, client.aborted);
  await eventually('calls that run upstream', async () => (await upstream(gw)).running, 0);
  await eventually('leases', async () => (await leases(gw, client.tenant)).length, 0);
  assert.equal((await upstream(gw)).cancelled - before.cancelled, 1);
}

// A stream that breaks must never look like one that ended.
async function broken(client, open, gw, hook, want) {
  const { client: c, attempts } = open(client.tenant, { hook });
  const got = await drain(client.stream(c, { withUsage: true }));
  assert.ok(got.error, `the stream ended as if it were whole, after ${got.pieces.length} pieces`);
  assert.equal(got.error.constructor.name, want.kind);
  assert.match(got.error.message, want.message);
  assert.deepEqual(got.pieces, said.pieces.slice(0, 5));
  assert.equal(attempts.length, 1, 'what was half said is not said again');
  await eventually('leases', async () => (await leases(gw, client.tenant)).length, 0);
}

async function wrongKey(client, open) {
  const { client: c, attempts } = open('nobody');
  const got = client.problem(await failure(client.plain(c)));
  assert.equal(got.status, 401);
  assert.equal(got.kind, client.kinds.key);
  assert.equal(attempts.length, 1);
}

async function seen(client, open, gw) {
  const tenant = `${client.tenant}-slot`;
  const release = await hold(gw, tenant, keyOf(tenant));
  try {
    const got = client.problem(await failure(client.plain(open(tenant, { retries: 0 }).client)));
    assert.equal(got.status, 429);
    assert.equal(got.kind, client.kinds.rate);
    assert.equal(got.code, client.rateCode ?? 'rate_limit_exceeded');
    assert.match(got.message, new RegExp(`tenant ${tenant} on concurrent calls.*Limit 1, Used 1.*Please try again in `));
    assert.equal(Number(got.header('retry-after')), Math.ceil(Number(got.header('retry-after-ms')) / 1000));
    assert.match(got.id, /^req_/);
    assert.equal(got.header('x-request-id'), got.id);
  } finally {
    await release();
  }
}

// Refused once, by the slot that another call holds until then. Who has had no call
// yet is told to come back in a second.
async function comeBack(client, open, gw) {
  const tenant = `${client.tenant}-again`;
  const release = await hold(gw, tenant, keyOf(tenant));
  const onAnswer = (answer) => answer.status === 429 && release();
  const { client: c, attempts } = open(tenant, { onAnswer });
  const answer = await client.plain(c);
  assert.equal(answer.text, said.text);
  assert.deepEqual(attempts.map((a) => a.status), [429, 200]);
  const [refused, served] = attempts;
  const promised = Number(refused.headers.get('retry-after-ms'));
  assert.equal(promised, 1000);
  const waited = served.sent - refused.came;
  assert.ok(waited >= promised, `it came back after ${waited} ms, and was told ${promised}`);
  // Its own clock goes off before what it was told, or a second after it.
  if (client.obeysRetryAfter && client.ownWait > promised) {
    assert.ok(waited < client.ownWait, `it came back after ${waited} ms, and was told ${promised}`);
  }
}

async function spent(client, open, gw) {
  const tenant = `${client.tenant}-budget`;
  const { client: c, attempts } = open(tenant);
  await client.plain(c); // takes it all: while nothing else runs, one call may
  await eventually('leases', async () => (await leases(gw, tenant)).length, 0);
  attempts.length = 0;
  const got = client.problem(await failure(client.plain(c)));
  assert.equal(got.status, 429);
  assert.equal(got.kind, client.kinds.spent);
  assert.equal(got.code, client.spentCode ?? 'insufficient_quota');
  assert.equal(got.header('x-should-retry'), 'false');
  assert.equal(attempts.length, client.spentAttempts);
  assert.equal(await counted(gw, 'llmgov_requests_total', { tenant, outcome: 'refused', reason: 'budget' }), client.spentAttempts);
}
