// One tenant or team: its shares over time, limits, budgets, teams, keys, and its refusals.

import { rangeChoice, tenantChart } from '../chart.js';
import { h } from '../dom.js';
import { feed, newest } from '../events.js';
import { date, duration, full, moment, percent, plural, short, since } from '../format.js';
import { axisName, badge, budgetName, busy, colourOf, loading, meter, panel, receivedOf, scaleOf, shareBar, shareLegend, tenantLink, use, waits, wholeTenantLink } from '../parts.js';
import { request } from '../api.js';
import { refresh } from '../feed.js';
import { changed, may, state } from '../state.js';
import { limitsTable } from './policy.js';

export const title = 'Tenant';
export const needs = ['tenants', 'fairness', 'policy', 'keys', 'overrides'];

export function view(name) {
  const all = state.answers.tenants?.tenants;
  const t = all?.find((one) => one.name === name);
  if (!t) return panel(name, h('p', { class: 'empty' }, all ? 'The policy has no tenant of this name.' : loading));
  const own = (e) => e.tenant === name || e.tenant?.startsWith(`${name}/`);
  const notable = newest(12, (e) => (e.refusal || e.failure) && own(e));
  const teams = all.filter((one) => one.parent === name);
  const shares = sharesOf(name);
  const overrides = (state.answers.overrides?.overrides ?? []).filter((o) => o.tenant === name || name.startsWith(`${o.tenant}/`) || o.tenant.startsWith(`${name}/~`));
  const charts = shares.filter((s, i) => i === 0 || busy(s)).slice(0, 2);
  const rest = shares.slice(charts.length);
  return [
    h('header', { class: 'title' }, h('h1', null, h('i', { class: 'dot', style: { '--colour': colourOf(name) } }), name), h('p', null, about(t)), shares.length > 0 && rangeChoice()),
    charts.map((s) => h('section', { class: 'panel share', key: s.pool }, sharePanel(s, name))),
    rest.length > 0 && panel('Other pools', h('ul', { class: 'shares' }, rest.map((s) => h('li', { key: s.pool }, shareOf(s, name))))),
    h('div', { class: 'columns' },
      overrides.length > 0 && panel('Overridden', overrides.map(overrideOf)),
      panel('Own limits', limitMeters(t)),
      t.budgets.length > 0 && panel('Budgets', t.budgets.map(budgetMeter)),
      t.members && panel(`Members: ${full(t.members.total)}`, memberList(t.members)),
      teams.length > 0 && panel('Teams', teamList(teams)),
      panel('Keys', keyList(name))),
    panel('Refusals and failures', notable.length > 0 ? feed(notable, `Refusals and failures of ${name}`) : h('p', { class: 'empty' }, 'None among the last 5,000 decisions.')),
    policyOf(name),
  ];
}

function about(t) {
  return [
    t.parent ? ['team of ', wholeTenantLink(t.parent), ', '] : null,
    t.tier && `tier ${t.tier}, `, `weight ${short(t.weight)}`, t.group && ` in group ${t.group}`,
    `, waits up to ${duration(t.max_wait_seconds)}, `, `${short(t.running)} in flight`, t.waiting > 0 && `, ${short(t.waiting)} waiting for own limits`,
    t.shadow && [' ', badge('shadow', `shadow: ${short(t.shadow_refused)} would have been refused`)],
  ];
}

// sharesOf are those of a tenant in each pool, the busiest first.
function sharesOf(name) {
  const rows = [];
  for (const p of state.answers.fairness?.pools ?? []) {
    const s = p.tenants.find((one) => one.name === name);
    if (s) rows.push({ ...s, pool: p.name });
  }
  return rows.sort((a, b) => use(b) - use(a));
}

const sharePanel = (s, name) => h('div', { class: 'two' }, tenantChart(s.pool, name), h('div', { class: 'shares' }, shareLegend(scaleOf([s]), colourOf(name)), shareOf(s, name), books(s)));

const shareOf = (s, name) => [
  h('div', { class: 'what' }, h('span', null, `Pool ${s.pool}`), waits(s), h('span', { class: 'figure', title: 'received of entitled' }, receivedOf(s))),
  shareBar(s, scaleOf([s]), colourOf(name)),
];

// books are a share's figures.
const books = (s) => h('dl', { class: 'facts books' },
  fact('by weight alone', percent(s.guaranteed_ratio)), fact('running', short(s.running)),
  fact('borrowed', `${short(s.borrowed_tokens)} tokens`), fact('lent', `${short(s.lent_tokens)} tokens`), fact('debt', `${short(s.debt_tokens)} tokens`));

const fact = (label, value) => h('div', null, h('dt', null, label), h('dd', null, value));

function limitMeters(t) {
  if (t.limits.length === 0) return h('p', { class: 'empty' }, 'No limits of its own. The pool’s share decides.');
  return t.limits.map((l) => meter(axisName(l.axis) + (l.pool ? ` in ${l.pool}` : ''), l.used, l.limit));
}

const budgetMeter = (b) => meter(budgetName(b), b.used, b.limit, { unit: b.unit, note: b.per === 'life' ? 'for life' : `resets ${moment(b.resets_at)}` });

// overrideOf is an override, which those can clear who may.
const overrideOf = (o) => h('div', { class: 'override', key: o.tenant },
  h('p', null, o.tenant !== '' && h('b', null, o.tenant), ` ${limitsOf(o)}`),
  h('p', { class: 'soft' }, `by ${o.by}: ${o.why}, ${o.until ? `until ${moment(o.until)}` : 'until it is cleared'}`),
  may('operate') && h('button', { class: 'pause', onclick: () => clear(o.tenant) }, 'Clear'));

const limitsIn = (o) => ['rpm', 'tpm', 'itpm', 'otpm', 'concurrency', 'weight'].filter((key) => o[key] !== undefined).map((key) => `${key} ${full(o[key])}`);
const limitsOf = (o) => [...limitsIn(o), ...(o.budgets ?? []), ...(o.pools ?? [])].join(', ');

async function clear(tenant) {
  if (!confirm(`Have the limits of the policy again for ${tenant}?`)) return;
  try {
    await request(`api/v1/overrides/${tenant.split('/').map(encodeURIComponent).join('/')}`, { method: 'DELETE', headers: { 'X-Llmgov-Why': 'cleared in the console' } });
    await refresh('overrides');
  } catch (error) {
    alert(error.message);
  }
  changed();
}

// memberList has the members that took the most lately.
function memberList({ heaviest }) {
  if (heaviest.length === 0) return h('p', { class: 'empty' }, 'None has called lately.');
  return h('ul', { class: 'keys' }, heaviest.map((m) => h('li', { key: m.name || ' ' },
    h('b', null, m.name || 'calls that name nobody'),
    h('span', { class: 'soft' }, `${short(Math.round(m.tokens_per_minute))} tokens in the last minute · ${short(m.running)} running`, m.waiting > 0 && ` · ${short(m.waiting)} waiting`,
      m.budgets.map((b) => ` · ${percent(b.used / b.limit)} of ${budgetName(b)}`)))));
}

const teamList = (teams) => h('ul', { class: 'teams' }, teams.map((t) => h('li', { key: t.name }, tenantLink(t.name),
  h('span', null, `weight ${short(t.weight)}, ${short(t.running)} running`))));

// keyList has the keys of a tenant. Their last use is what this gateway has seen.
export function keyList(name) {
  const keys = (state.answers.keys?.keys ?? []).filter((k) => k.tenant === name);
  if (keys.length === 0) return h('p', { class: 'empty' }, state.answers.keys ? 'No keys of its own.' : loading);
  return h('ul', { class: 'keys' }, keys.map((k) => h('li', { key: k.id },
    h('b', { title: k.id }, k.name || h('span', { class: 'mono' }, `${k.hash_prefix}…`)), keyState(k),
    h('span', { class: 'soft' }, k.last_used_at ? `last used ${since(k.last_used_at)}` : 'not used since the start', expiryOf(k)))));
}

const statuses = { revoked: 'revoked', no_tenant: 'no tenant', overlaid: 'also in a policy file' };

function keyState(k) {
  if (k.expired) return badge('bad', 'expired');
  return statuses[k.status] ? badge('warn', statuses[k.status]) : null;
}

const soon = 7 * 86400; // seconds before its expiry, in which a key is marked

// expiryOf is the last day on which a key is good: one that expires 2030-01-31 is good until midnight.
function expiryOf(k) {
  if (!k.expires) return ' · never expires';
  const last = date(Date.parse(k.expires) - 1);
  const left = (Date.parse(k.expires) - Date.now()) / 1000;
  if (left < 0) return ` · expired ${last}`;
  return [' · ', h('span', { class: left < soon ? 'warn-text' : null, title: moment(k.expires) }, `expires ${last}`, left < soon && `, in ${left < 86400 ? duration(left) : plural(Math.floor(left / 86400), 'day')}`)];
}

function policyOf(name) {
  const rows = [];
  for (const p of state.answers.policy?.pools ?? []) {
    const t = p.tenants.find((one) => one.name === name);
    for (const l of t?.limits ?? []) rows.push({ ...l, tenant: name, pool: p.name });
  }
  return rows.length > 0 && panel('Policy', limitsTable(rows));
}
