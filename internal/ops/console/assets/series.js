// What charts show of a pool: the hour that the gateway remembers, and after it each second
// since the page was opened.

import { get } from './api.js';
import { changed, state } from './state.js';

const liveFor = 300; // seconds
const askEvery = 10; // seconds
const gap = 25; // seconds without a point, in which the line breaks

const live = new Map(); // by pool: points
const past = new Map(); // by pool and tenant: {asked, points, failures}

let ahead = 0; // of this browser's clock, the gateway's is: in seconds

// sample keeps what a snapshot says of each pool.
export function sample(snapshot) {
  const at = Date.parse(snapshot.process.started_at) / 1000 + snapshot.process.uptime_seconds;
  ahead = at - Date.now() / 1000;
  for (const pool of snapshot.pools) {
    const list = live.get(pool.name) ?? [];
    live.set(pool.name, list);
    const limit = pool.limits[0];
    list.push({ at, used: limit?.used ?? pool.running, limit: limit?.limit ?? null, ...shares(pool.fairness.tenants) });
    while (list[0].at < at - liveFor) list.shift();
  }
}

// shares are the parts that tenants had, and how much that is together.
function shares(tenants) {
  const parts = new Map();
  let received = 0;
  for (const t of tenants) {
    received += t.received_ratio;
    if (t.received_ratio > 0 || t.entitled_ratio > 0) parts.set(t.name, [t.received_ratio, t.entitled_ratio]);
  }
  return { received, parts };
}

// points are those of a pool within the chosen time, and the times in which calls failed. The
// past is asked for, and of the tenant if one is named, so that it need not be among the first.
export function points(pool, tenant = '') {
  const key = `${pool}\n${tenant}`;
  const kept = past.get(key) ?? { asked: 0, points: [], failures: [], refusals: [] };
  past.set(key, kept);
  const now = Date.now() / 1000 + ahead;
  if (now - kept.asked > askEvery && !state.paused) {
    kept.asked = now;
    ask(pool, tenant, kept);
  }
  const from = now - state.minutes * 60;
  const seconds = live.get(pool) ?? [];
  const first = seconds[0]?.at ?? Infinity;
  const all = [...kept.points.filter((p) => p.at < first), ...seconds];
  return { points: broken(all.filter((p) => p.at >= from)), failures: kept.failures, refusals: kept.refusals, from, to: now };
}

// broken has a point without figures wherever nobody looked.
function broken(list) {
  const out = [];
  for (const [i, p] of list.entries()) {
    if (i > 0 && p.at - list[i - 1].at > gap) out.push({ at: p.at - 1, used: null, limit: null, received: 0, parts: new Map() });
    out.push(p);
  }
  return out;
}

// joined makes spans of steps that follow each other.
function joined(steps) {
  const out = [];
  for (const [from, to] of steps) {
    if (out.at(-1)?.[1] === from) out.at(-1)[1] = to;
    else out.push([from, to]);
  }
  return out;
}

async function ask(pool, tenant, kept) {
  try {
    const query = new URLSearchParams(tenant ? { pool, tenant } : { pool });
    const h = await get(`api/v1/history?${query}`);
    kept.points = h.times.map((at, i) => ({
      at, used: h.used[i], limit: h.limit[i], received: h.received_ratio[i],
      parts: new Map(h.tenants.map((t) => [t.name, [t.received_ratio[i], t.entitled_ratio[i]]])),
    }));
    const counts = tenant ? h.tenants[0] : h;
    const steps = (list) => joined(h.times.filter((_, i) => list[i] > 0).map((at) => [at - h.step_seconds, at]));
    kept.failures = steps(counts.failed);
    kept.refusals = steps(counts.refused);
    changed();
  } catch { /* it is asked for again */ }
}
