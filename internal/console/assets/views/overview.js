// All pools: what is used of each, by whom, and what was decided last.

import { chartInto, tops } from '../chart.js';
import { h } from '../dom.js';
import { duration, full, percent, short } from '../format.js';
import { axisName, badge, feed, matches, meter, newest, panel, poolChoice, poolsShown, receivedOf, scaleOf, shareBar, tenantLink, use, waits } from '../parts.js';
import { colourOf, drawNow, refusedLately, state } from '../state.js';

const listed = 8;

export const title = 'Overview';
export const needs = [];

export function view() {
  const refused = refusedLately((e) => e.pool);
  const events = newest(8, (e) => (e.kind === 'refused' || e.kind === 'reloaded' || e.kind === 'throttled' || e.waited_seconds > 0.001) && passes(e));
  return [
    h('div', { class: 'bar-tools' }, poolChoice((p) => { state.pool = p; drawNow(); })),
    poolsShown().sort((a, b) => fullness(b) - fullness(a)).map((p) => poolPanel(p, refused.get(p.name) ?? 0)),
    panel(h('span', null, 'Waits and refusals', h('a', { class: 'more', href: '#/decisions' }, 'all decisions')),
      events.length > 0 ? feed(events, 'Latest decisions') : h('p', { class: 'empty' }, 'Nobody has had to wait, and nobody was refused.')),
  ];
}

const passes = (e) => matches(e.tenant, e.request) && (!state.pool || !e.pool || e.pool === state.pool);

// fullness orders pools: those first that have least room.
function fullness(pool) {
  let most = 0;
  for (const l of pool.limits) most = Math.max(most, l.used / l.limit);
  return Math.round(10 * most) + (pool.waiting > 0 ? 1 : 0); // in steps, so that they do not change places each second
}

function poolPanel(pool, refused) {
  const shares = pool.fairness.tenants.filter((s) => use(s) > 0 && matches(s.name)).sort((a, b) => use(b) - use(a));
  const coloured = new Set(tops(pool));
  const scale = scaleOf(shares);
  return h('section', { class: 'panel pool', key: pool.name },
    h('h2', null, h('span', null, 'Pool ', h('b', null, pool.name)), h('span', { class: 'signs' }, signs(pool))),
    h('div', { class: 'meters' },
      pool.limits.map((l) => meter(axisName(l.axis), l.used, l.limit, { note: l.axis === 'concurrency' && pool.adaptive && `adaptive (${pool.adaptive.law}), from ${full(pool.adaptive.min)} to ${full(pool.adaptive.max)}` })),
      pool.budgets.map((b) => meter(b.name, b.used, b.limit)),
      h('dl', { class: 'facts' },
        fact('running', short(pool.running)), fact('waiting', short(pool.waiting)),
        fact('refused / min', short(refused)), fact('fairness', pool.fairness.jain_index.toFixed(3), 'Jain’s index of received by entitled: 1 is that all have their due'))),
    h('div', { class: 'two' },
      h('figure', null,
        h('figcaption', null, 'Rolling minute against its limit'),
        h('div', { class: 'chart', role: 'img', 'aria-label': `Use of pool ${pool.name} in the last minutes`, opaque: true, ref: chartInto(pool) })),
      h('div', { class: 'shares' },
        h('p', { class: 'legend' }, h('span', null, h('i', { class: 'key fill' }), 'received'), h('span', null, h('i', { class: 'key mark' }), 'entitled'), h('span', null, h('i', { class: 'key wanted' }), 'asked for'), h('span', { class: 'scale' }, `to ${percent(scale)} of the pool`)),
        h('ul', null, shares.slice(0, listed).map((s) => shareRow(s, scale, coloured.has(s.name) ? colourOf(s.name) : 'var(--others)'))),
        h('a', { class: 'more', href: '#/tenants' }, rest(pool, shares.length)))));
}

function rest(pool, busy) {
  const idle = pool.fairness.tenants_total - busy;
  return [busy > listed && `${busy - listed} more`, idle > 0 && !state.filter && `${idle} idle`].filter(Boolean).join(', ') || 'all in detail';
}

const shareRow = (s, scale, colour) => h('li', { key: s.name },
  h('div', { class: 'what' }, tenantLink(s.name), waits(s), h('span', { class: 'figure' }, receivedOf(s))),
  shareBar(s, scale, colour));

const fact = (name, value, title) => h('div', { title }, h('dt', null, name), h('dd', null, value));

// signs are what is not as always: upstreams that pause or fail, a store that is lost.
export function signs(pool) {
  const out = [];
  if (pool.sharing?.degraded) out.push(badge('bad', `degraded: ${pool.sharing.degraded}`));
  if (pool.held_until) out.push(badge('bad', `held for ${duration(Math.max(0, (Date.parse(pool.held_until) - Date.now()) / 1000))}`));
  else if (pool.rate_ratio < 1) out.push(badge('warn', `at ${percent(pool.rate_ratio)} of its rate`));
  return out.concat(pool.upstreams.map((u) => h('span', { class: `upstream ${u.state}`, title: `${u.kind}, weight ${u.weight}: ${u.state}` }, u.name, u.state !== 'up' && ` ${u.state}`)));
}
