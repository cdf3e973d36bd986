// The feed of decisions, by kind, pool and tenant. What needs attention is shown first; calls
// that were admitted and ended as they should are folded until they are asked for.

import { h } from '../dom.js';
import { eventColumns, kindOf, kinds, newest, openEvent } from '../events.js';
import { full, plural, short } from '../format.js';
import { matches, poolChoice } from '../parts.js';
import { drawNow, state } from '../state.js';
import { table } from '../table.js';

export const title = 'Decisions';
export const needs = [];

const most = 2000;

let stopped = null; // the last event that is shown while paused

export function view() {
  const among = (e) => (!state.pool || !e.pool || e.pool === state.pool) && matches(e.tenant, e.request, e.refusal?.code, e.failure?.upstream);
  if (!state.paused) stopped = state.events.at(-1);
  const known = newest(Infinity, (e) => among(e) && (!state.paused || !stopped || e.at <= stopped.at));
  const counts = new Map();
  for (const e of known) counts.set(kindOf(e), (counts.get(kindOf(e)) ?? 0) + 1);
  const rows = known.filter((e) => state.kinds.has(kindOf(e))).slice(0, most);
  return [
    h('div', { class: 'bar-tools' },
      h('div', { class: 'toggles', role: 'group', 'aria-label': 'Kinds' }, kinds.map((k) => h('button', {
        key: k, 'aria-pressed': String(state.kinds.has(k)), onclick: () => { toggle(k); drawNow(); },
      }, k, ' ', h('small', null, short(counts.get(k) ?? 0))))),
      poolChoice((p) => { state.pool = p; drawNow(); }),
      h('button', { class: 'pause', 'aria-pressed': String(state.paused), onclick: () => { state.paused = !state.paused; drawNow(); } }, state.paused ? 'Resume' : 'Pause'),
      state.lost > 0 && h('span', { class: 'count' }, `${plural(state.lost, 'event')} skipped: too many to show`)),
    h('section', { class: 'panel list' }, table({
      name: 'Decisions', rows, columns: eventColumns, keyOf: (e) => e.id, open: openEvent, rowClass: kindOf, empty: empty(counts),
    })),
  ];
}

// empty is what stands for an empty list: mostly there is nothing wrong.
function empty(counts) {
  const hidden = kinds.filter((k) => counts.has(k) && !state.kinds.has(k)).map((k) => `${full(counts.get(k))} ${k}`);
  return hidden.length > 0 ? `Nothing of the chosen kinds. Hidden: ${hidden.join(', ')}.` : 'No matching decisions among the last 5,000.';
}

function toggle(kind) {
  if (!state.kinds.delete(kind)) state.kinds.add(kind);
}
