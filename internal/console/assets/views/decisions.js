// The feed of decisions, by kind, pool and tenant.

import { h } from '../dom.js';
import { eventColumns, matches, newest, openEvent, poolChoice } from '../parts.js';
import { drawNow, state } from '../state.js';
import { table } from '../table.js';

export const title = 'Decisions';
export const needs = [];

const kinds = ['refused', 'admitted', 'ended', 'throttled', 'reloaded'];
const most = 2000;

let stopped = []; // what is shown while paused

export function view() {
  const passes = (e) => state.kinds.has(e.kind) && (!state.pool || !e.pool || e.pool === state.pool) && matches(e.tenant, e.request, e.refusal?.code);
  if (!state.paused) stopped = state.events.slice(-1)[0];
  const rows = newest(most, (e) => passes(e) && (!state.paused || !stopped || e.at <= stopped.at));
  return [
    h('div', { class: 'bar-tools' },
      h('div', { class: 'toggles', role: 'group', 'aria-label': 'Kinds' }, kinds.map((k) => h('button', {
        key: k, 'aria-pressed': String(state.kinds.has(k)), onclick: () => { toggle(k); drawNow(); },
      }, k))),
      poolChoice((p) => { state.pool = p; drawNow(); }),
      h('button', { class: 'pause', 'aria-pressed': String(state.paused), onclick: () => { state.paused = !state.paused; drawNow(); } }, state.paused ? 'Go on' : 'Pause'),
      state.lost > 0 && h('span', { class: 'count' }, `${state.lost} were lost on the way`)),
    h('section', { class: 'panel list' }, table({
      name: 'Decisions', rows, columns: eventColumns, keyOf: (e) => e.id, open: openEvent, rowClass: (e) => e.kind,
      empty: 'No decision is like that, of those since the gateway began or the last 5,000.',
    })),
  ];
}

function toggle(kind) {
  if (!state.kinds.delete(kind)) state.kinds.add(kind);
}
