// The calls that run and wait now.

import { h } from '../dom.js';
import { duration, full, plural, short } from '../format.js';
import { badge, bar, loading, matches, poolChoice, requestLink, tenantLink, toRequest } from '../parts.js';
import { drawNow, state } from '../state.js';
import { table } from '../table.js';

export const title = 'Leases';
export const needs = ['leases'];

export function view() {
  const all = state.answers.leases?.leases;
  const rows = (all ?? []).filter((l) => (!state.pool || l.pool === state.pool) && matches(l.tenant, l.id, l.state)).sort((a, b) => b.age_seconds - a.age_seconds);
  return [
    h('div', { class: 'bar-tools' }, h('span', { class: 'count' }, `${plural(rows.length, 'call')}, oldest first`), poolChoice((p) => { state.pool = p; drawNow(); })),
    h('section', { class: 'panel list' }, table({
      name: 'Leases', rows, columns, keyOf: (l) => l.id, open: (l) => toRequest(l.id),
      empty: !all ? loading : 'No calls in flight.',
    })),
  ];
}

const columns = [
  { name: 'Age', kind: 'number', of: (l) => duration(l.age_seconds) },
  { name: 'State', of: (l) => badge(l.state) },
  { name: 'Tenant', kind: 'name', of: (l) => tenantLink(l.tenant) },
  { name: 'Pool', wide: true, of: (l) => l.pool },
  { name: 'Used of held', kind: 'wide-bar', of: (l) => bar([{ part: l.held_tokens > 0 ? l.used_tokens / l.held_tokens : 0, class: 'fill' }]) },
  { name: 'Tokens', kind: 'number', of: (l) => h('span', { title: `${full(l.used_tokens)} used of ${full(l.held_tokens)} held` }, short(l.used_tokens), ' / ', short(l.held_tokens)) },
  { name: 'Request', wide: true, of: (l) => requestLink(l.id) },
];
