// What is known, and when to draw it.

const keptEvents = 5000;
const drawEvery = 200; // milliseconds; who types or clicks is drawn at once

export const state = {
  me: null, // who looks: user, role; null until that is known
  snapshot: null, // null until the first came
  tenants: new Set(), // names that the policy has, of very many the first
  answers: {}, // of what views need besides: tenants, fairness, leases, policy, keys
  events: [], // the oldest first
  lost: 0,
  live: 'connecting', // live, lost
  problem: '', // why nothing comes
  problemSince: null,
  minutes: Number(localStorage.getItem('llmgov-minutes')) || 15, // that charts show
  filter: '',
  pool: '', // '' is all
  kinds: new Set(['refused', 'failed', 'shadow', 'throttled', 'reloaded']), // of decisions that are shown
  sort: { by: 'received', down: true },
  spendBy: 'team',
  paused: false,
  explained: new Map(), // by request: {answer} or {error}
};

// may tells whether who looks may do what needs a role.
export const may = (role) => ['admin', role].includes(state.me?.role) || (role === 'view' && state.me?.role === 'operate');

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

export function sampled(snapshot) {
  state.snapshot = snapshot;
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
