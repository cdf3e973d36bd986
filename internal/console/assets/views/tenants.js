// All tenants in each pool: what they have, and what is their due.

import { h } from '../dom.js';
import { duration, percent, short } from '../format.js';
import { matches, poolChoice, scaleOf, shareBar, tenantLink, toTenant, use } from '../parts.js';
import { drawNow, refusedLately, state } from '../state.js';
import { table } from '../table.js';

export const title = 'Tenants';
export const needs = ['fairness'];

const orders = {
  name: (r) => r.name, use, entitled: (r) => r.entitled_ratio, running: (r) => r.running, queued: (r) => r.queued, debt: (r) => r.debt_tokens,
};

export function view() {
  const pools = (state.answers.fairness?.pools ?? []).filter((p) => !state.pool || p.name === state.pool);
  const several = pools.length > 1;
  const refused = refusedLately((e) => `${e.pool}\n${e.tenant}`);
  const rows = [];
  for (const p of pools) {
    const scale = scaleOf(p.tenants);
    for (const t of p.tenants) if (matches(t.name, several && p.name)) rows.push({ ...t, pool: p.name, scale });
  }
  rows.sort(order);
  return [
    h('div', { class: 'bar-tools' }, h('span', { class: 'count' }, `${rows.length} ${several ? 'rows' : 'tenants'}`), poolChoice((p) => { state.pool = p; drawNow(); })),
    h('section', { class: 'panel list' }, table({
      name: 'Tenants', rows, columns: columns(several, refused), keyOf: (r) => `${r.pool}\n${r.name}`, open: (r) => toTenant(r.name),
      empty: state.answers.fairness ? 'No tenant has that in its name.' : 'Asking the gateway …',
      onsort: (by) => { state.sort = { by, down: by === state.sort.by ? !state.sort.down : by !== 'name' }; drawNow(); }, sorted: state.sort,
    })),
  ];
}

function order(a, b) {
  const of = orders[state.sort.by];
  const [x, y] = [of(a), of(b)];
  const way = x < y ? -1 : x > y ? 1 : 0;
  return (state.sort.down ? -way : way) || (a.name < b.name ? -1 : 1);
}

const columns = (several, refused) => [
  { name: 'Tenant', sort: 'name', kind: 'name', of: (r) => tenantLink(r.name) },
  several && { name: 'Pool', of: (r) => r.pool },
  { name: 'Weight', kind: 'number', wide: true, of: (r) => short(r.weight) },
  { name: 'Share of the pool', kind: 'wide-bar', sort: 'use', of: (r) => shareBar(r, r.scale) },
  { name: 'Received', kind: 'number', sort: 'use', of: (r) => percent(r.received_ratio) },
  { name: 'Entitled', kind: 'number', sort: 'entitled', of: (r) => percent(r.entitled_ratio) },
  { name: 'Running', kind: 'number', sort: 'running', wide: true, of: (r) => short(r.running) },
  { name: 'Waiting', kind: 'number', sort: 'queued', of: (r) => (r.queued > 0 ? `${short(r.queued)}, ${duration(r.oldest_wait_seconds)}` : '0') },
  { name: 'Refused / min', kind: 'number', wide: true, of: (r) => String(refused.get(`${r.pool}\n${r.name}`) ?? 0) },
  { name: 'Debt', kind: 'number', sort: 'debt', wide: true, of: (r) => short(r.debt_tokens) },
].filter(Boolean);
