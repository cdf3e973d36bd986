// All pools: how full each is and by whom, what is wrong with it, and what was decided last.

import { poolChart, rangeChoice } from '../chart.js';
import { coloursOf } from '../colours.js';
import { h } from '../dom.js';
import { feed, newest } from '../events.js';
import { duration, full, percent, plural, short, since } from '../format.js';
import { axisName, badge, bar, budgetName, busy, matches, meter, panel, poolChoice, poolsShown, receivedOf, scaleOf, shareBar, shareLegend, tenantLink, use, waits } from '../parts.js';
import { drawNow, refusedLately, state } from '../state.js';
import { outage } from '../strip.js';

const listed = 8; // tenants with a bar
const coloured = 12; // tenants with a colour in the chart

export const title = 'Overview';
export const needs = [];

export function view() {
  if (!state.snapshot) return [];
  const refused = refusedLately((e) => e.pool);
  const events = newest(8, (e) => notable(e) && matches(e.tenant, e.request) && (!state.pool || !e.pool || e.pool === state.pool));
  return [
    h('div', { class: 'bar-tools' }, rangeChoice(), poolChoice((p) => { state.pool = p; drawNow(); })),
    poolsShown().sort((a, b) => urgency(b) - urgency(a)).map((p) => poolPanel(p, refused.get(p.name) ?? 0)),
    panel(h('span', null, 'Refusals, failures and waits', h('a', { class: 'more', href: '#/decisions' }, 'all decisions')),
      events.length > 0 ? feed(events, 'Latest decisions') : h('p', { class: 'empty' }, 'No call was refused, failed or had to wait.')),
  ];
}

const notable = (e) => ['refused', 'failed', 'reloaded', 'throttled'].includes(e.kind) || e.waited_seconds > 0.001;

// urgency orders pools: those that are down, then those with least room.
function urgency(pool) {
  let most = outage(pool) ? 10 : 0;
  for (const l of pool.limits) most = Math.max(most, l.used / l.limit);
  return Math.round(10 * most) + (pool.waiting > 0 ? 1 : 0); // in steps, so that they do not change places each second
}

function poolPanel(pool, refused) {
  const shares = pool.fairness.tenants.filter((s) => busy(s) && matches(s.name)).sort((a, b) => use(b) - use(a));
  const names = shares.slice(0, coloured).map((s) => s.name);
  const scale = scaleOf(shares);
  const colours = coloursOf(names);
  const down = outage(pool);
  const several = pool.sharing?.nodes.length > 1; // then it matters whose figures these are
  const here = several ? ' (here)' : '';
  const all = several ? ' (all)' : '';
  return h('section', { class: `panel pool ${down ? 'down' : ''}`, key: pool.name },
    h('h2', null, h('span', null, 'Pool ', h('b', null, pool.name)), down && h('strong', { class: 'outage' }, outageOf(pool, down)), h('span', { class: 'signs' }, signs(pool))),
    h('div', { class: 'head-row' }, h('div', { class: 'meters' },
      pool.limits.map((l) => meter(axisName(l.axis) + all, l.used, l.limit, { note: l.axis === 'concurrency' && pool.adaptive && adaptiveOf(pool.adaptive) })),
      pool.budgets.map((b) => meter(budgetName(b) + all, b.used, b.limit, { unit: b.unit }))),
      h('dl', { class: 'facts' },
        fact(`running${here}`, short(pool.running)), fact(`waiting${here}`, short(pool.waiting)),
        fact(`refused / min${here}`, short(refused)), fact(`failed / min${here}`, short(pool.failed_last_minute), '', pool.failed_last_minute > 0 ? 'bad' : ''),
        fact('fairness', pool.fairness.jain_index.toFixed(3), 'Jain’s index of received to entitled shares; 1: every tenant has what it is entitled to'))),
    serversOf(pool),
    h('div', { class: `two ${shares.length === 0 ? 'quiet' : ''}` },
      poolChart(pool, names),
      h('div', { class: 'shares' },
        shares.length > 0 && shareLegend(scale),
        h('ul', null, shares.slice(0, listed).map((s) => shareRow(s, scale, colours.get(s.name)))),
        h('a', { class: 'more', href: '#/tenants' }, rest(pool, shares.length)))));
}

const adaptiveOf = (a) => `adaptive (${a.law}), from ${full(a.min)} to ${full(a.max)}${a.room ? `; its servers have room for ${full(a.room)}` : ''}`;

// serversOf are the model servers that tell their load: those first that cannot be read, then those with the most to do.
function serversOf(pool) {
  const list = pool.upstreams.filter((u) => u.engine).sort((a, b) => a.engine.fresh - b.engine.fresh || b.engine.waiting - a.engine.waiting || b.engine.kv_cache_use - a.engine.kv_cache_use);
  if (list.length === 0) return null;
  return h('ul', { class: 'servers' },
    list.slice(0, listed).map(({ name, engine: e }) => h('li', { key: name }, h('span', null, 'Server ', h('b', null, name)), e.fresh ? loadOf(e) : [badge('bad', 'stale'), h('span', { class: 'message' }, `its metrics are not read: ${e.error}`)])),
    list.length > listed && h('li', { key: ' more' }, `${list.length - listed} more with less to do`));
}

// loadOf is the load of a server. One without a figure of its KV cache has a use of 0.
const loadOf = (e) => [
  h('span', null, h('b', null, short(e.running)), ' running'),
  h('span', { class: e.waiting > 0 ? 'near' : null }, h('b', null, short(e.waiting)), ' waiting'),
  e.kv_cache_use > 0 && h('span', { class: 'kv' }, 'KV cache ', h('b', null, percent(e.kv_cache_use)), bar([{ part: e.kv_cache_use, class: 'fill' }])),
];

const outageOf = (pool, down) => `Upstream down since ${since(down.since)}, ${plural(pool.failed_last_minute, 'call')} failed in the last minute`;

function rest(pool, shown) {
  const idle = pool.fairness.tenants_total - shown;
  return [shown > listed && `${shown - listed} more`, idle > 0 && !state.filter && `${idle} idle`].filter(Boolean).join(', ') || 'all tenants';
}

const shareRow = (s, scale, colour) => h('li', { key: s.name },
  h('div', { class: 'what' }, h('i', { class: 'dot', style: { '--colour': colour } }), tenantLink(s.name), waits(s), h('span', { class: 'figure', title: 'received of entitled' }, receivedOf(s))),
  shareBar(s, scale, colour));

const fact = (name, value, title, kind) => h('div', { title: title || null, class: kind || null }, h('dt', null, name), h('dd', null, value));

const states = { up: '', busy: 'paused', open: 'down', probing: 'probing' };

// signs are what is not as always: upstreams that pause or fail, a store that is lost.
function signs(pool) {
  const out = [];
  if (pool.sharing?.degraded) out.push(badge('bad', `degraded: ${pool.sharing.degraded}`));
  if (pool.held_until) out.push(badge('bad', `paused for ${duration(Math.max(0, (Date.parse(pool.held_until) - Date.now()) / 1000))}`));
  else if (pool.rate_ratio < 1) out.push(badge('warn', `at ${percent(pool.rate_ratio)} of its rate`));
  return out.concat(pool.upstreams.map((u) => h('span', { class: `upstream ${u.state}`, title: `${u.kind}, weight ${u.weight}: ${u.state}` },
    u.name, states[u.state] && ` ${states[u.state]}`, u.down_since && !outage(pool) && ` since ${since(u.down_since)}`)));
}
