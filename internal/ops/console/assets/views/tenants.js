// All tenants in each pool: what they have, and what they are entitled to.

import { h } from '../dom.js';
import { duration, full, percent, plural, short } from '../format.js';
import { colourOf, loading, matches, poolChoice, scaleOf, shareBar, shareLegend, tenantLink, toTenant } from '../parts.js';
import { drawNow, refusedLately, state } from '../state.js';
import { table } from '../table.js';

export const title = 'Tenants';
export const needs = ['fairness'];

// orders are by what the column of the arrow shows.
const orders = {
  name: (r) => r.name, weight: (r) => r.weight, received: (r) => r.received_ratio, entitled: (r) => r.entitled_ratio, demand: (r) => r.demand_ratio,
  running: (r) => r.running, queued: (r) => r.queued, refused: (r) => r.refused, debt: (r) => r.debt_tokens,
};

export function view() {
  const pools = (state.answers.fairness?.pools ?? []).filter((p) => !state.pool || p.name === state.pool);
  const several = pools.length > 1;
  const refused = refusedLately((e) => `${e.pool}\n${e.tenant}`);
  const rows = [];
  for (const p of pools) {
    const scale = scaleOf(p.tenants);
    for (const t of p.tenants) if (matches(t.name, several && p.name)) rows.push({ ...t, pool: p.name, scale, refused: refused.get(`${p.name}\n${t.name}`) ?? 0 });
  }
  rows.sort(order);
  const total = Math.max(0, ...pools.map((p) => p.tenants_total));
  const more = pools.some((p) => p.tenants.length < p.tenants_total) && h('span', { class: 'soft' }, ` of ${full(total)}; filter by name to find others`);
  return [
    h('div', { class: 'bar-tools' }, h('span', { class: 'count' }, several ? plural(rows.length, 'row') : plural(rows.length, 'tenant'), more),
      pools.length > 0 && shareLegend(several ? 0 : scaleOf(pools[0].tenants)), poolChoice((p) => { state.pool = p; drawNow(); })),
    h('section', { class: 'panel list' }, table({
      name: 'Tenants', rows, columns: columns(several), keyOf: (r) => `${r.pool}\n${r.name}`, open: (r) => toTenant(r.name),
      empty: state.answers.fairness ? 'No matching tenant.' : loading,
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

const columns = (several) => [
  { name: 'Tenant', sort: 'name', kind: 'name', of: (r) => tenantLink(r.name) },
  several && { name: 'Pool', of: (r) => r.pool },
  { name: 'Weight', kind: 'number', sort: 'weight', wide: true, of: (r) => short(r.weight) },
  { name: 'Share of the pool', kind: 'wide-bar', of: (r) => shareBar(r, r.scale, colourOf(r.name)) },
  { name: 'Received', kind: 'number', sort: 'received', of: (r) => percent(r.received_ratio) },
  { name: 'Entitled', kind: 'number', sort: 'entitled', of: (r) => percent(r.entitled_ratio) },
  { name: 'Asked for', kind: 'number', sort: 'demand', wide: true, of: (r) => percent(r.demand_ratio) },
  { name: 'Running', kind: 'number', sort: 'running', wide: true, of: (r) => short(r.running) },
  { name: 'Waiting', kind: 'number', sort: 'queued', of: (r) => (r.queued > 0 ? `${short(r.queued)}, ${duration(r.oldest_wait_seconds)}` : '0') },
  { name: 'Refused / min', kind: 'number', sort: 'refused', wide: true, of: (r) => short(r.refused) },
  { name: 'Debt', kind: 'number', sort: 'debt', wide: true, of: (r) => short(r.debt_tokens) },
].filter(Boolean);
