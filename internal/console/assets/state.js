// What is known, and when to draw it.

export const minutes = 5;
const keptEvents = 5000;
const drawEvery = 200; // milliseconds; who types or clicks is drawn at once

export const state = {
  snapshot: null, // null until the first came
  answers: {}, // of what views need besides: tenants, fairness, leases, policy
  series: new Map(), // by pool: [{at, used, limit, parts}]
  events: [], // the oldest first
  lost: 0,
  live: 'connecting', // live, lost
  problem: '', // why nothing comes
  filter: '',
  pool: '', // '' is all
  kinds: new Set(['refused', 'admitted', 'ended', 'reloaded', 'throttled']),
  sort: { by: 'use', down: true },
  paused: false,
  explained: new Map(), // by request: {answer} or {error}
};

let draw = () => {};
let drawn = 0;
let waiting = false;

export function onDraw(f) { draw = f; }

// changed asks for a drawing, soon; many changes are drawn once.
export function changed() {
  if (waiting) return;
  waiting = true;
  setTimeout(() => requestAnimationFrame(() => {
    waiting = false;
    drawNow();
  }), Math.max(0, drawn + drawEvery - performance.now()));
}

export function drawNow() {
  drawn = performance.now();
  draw();
}

// sampled takes a snapshot over, and keeps what charts show of it.
export function sampled(snapshot) {
  const at = Date.now() / 1000;
  state.snapshot = snapshot;
  for (const pool of snapshot.pools) {
    const list = state.series.get(pool.name) ?? [];
    state.series.set(pool.name, list);
    const limit = pool.limits[0];
    list.push({
      at, used: limit?.used ?? pool.running, limit: limit?.limit ?? null,
      parts: new Map(pool.fairness.tenants.filter((t) => t.received_ratio > 0).map((t) => [t.name, t.received_ratio])),
    });
    while (list[0].at < at - minutes * 60) list.shift();
  }
  changed();
}

export function happened(event) {
  state.events.push(event);
  if (state.events.length > keptEvents * 1.2) state.events.splice(0, state.events.length - keptEvents);
  if (!state.paused) changed();
}

// refusedLately counts the refusals of the last minute by what `of` says of them.
export function refusedLately(of) {
  const counts = new Map();
  const since = Date.now() - 60000;
  for (let i = state.events.length - 1; i >= 0 && state.events[i].at >= since; i--) {
    if (state.events[i].kind === 'refused') counts.set(of(state.events[i]), (counts.get(of(state.events[i])) ?? 0) + 1);
  }
  return counts;
}

// A tenant's colour in charts is its own as long as the page is open.
const colours = new Map();
export function colourOf(name) {
  if (!colours.has(name)) colours.set(name, `var(--c${colours.size % 12})`);
  return colours.get(name);
}
