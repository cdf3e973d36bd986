// One tenant or team: its limits, use, budgets, teams, shares, and its refusals.

import { h } from '../dom.js';
import { amount, date, duration, percent, short } from '../format.js';
import { axisName, badge, feed, meter, newest, panel, receivedOf, scaleOf, shareBar, tenantLink, use, waits } from '../parts.js';
import { state } from '../state.js';
import { limitsTable } from './policy.js';

export const title = 'Tenant';
export const needs = ['tenants', 'fairness', 'policy'];

export function view(name) {
  const all = state.answers.tenants?.tenants;
  const t = all?.find((one) => one.name === name);
  if (!t) return panel(name, h('p', { class: 'empty' }, all ? 'The policy has no tenant of this name.' : 'Asking the gateway …'));
  const own = (e) => e.tenant === name || e.tenant?.startsWith(`${name}/`);
  const refusals = newest(12, (e) => e.refusal && own(e));
  const teams = all.filter((one) => one.parent === name);
  return [
    h('header', { class: 'title' }, h('h1', null, name), h('p', null, about(t))),
    h('div', { class: 'columns' },
      panel('Share', sharesOf(name)),
      panel('Own limits', limitMeters(t)),
      t.budgets.length > 0 && panel('Budgets', t.budgets.map(budgetMeter)),
      teams.length > 0 && panel('Teams', teamList(teams))),
    panel('Refusals', refusals.length > 0 ? feed(refusals, `Refusals of ${name}`) : h('p', { class: 'empty' }, 'None among the last decisions.')),
    policyOf(name),
  ];
}

function about(t) {
  return [
    t.parent ? ['team of ', tenantLink(t.parent), ', '] : null,
    t.tier && `tier ${t.tier}, `, `weight ${short(t.weight)}`, t.group && ` in the group ${t.group}`,
    `, waits up to ${duration(t.max_wait_seconds)}, `, `${t.running} in flight`, t.waiting > 0 && `, ${t.waiting} waiting for own limits`,
    t.shadow && [' ', badge('shadow', `shadow: ${short(t.shadow_refused)} would have been refused`)],
  ];
}

// sharesOf are those of a tenant in each pool, with what it lent and borrowed.
function sharesOf(name) {
  const rows = [];
  for (const p of state.answers.fairness?.pools ?? []) {
    const s = p.tenants.find((one) => one.name === name);
    if (s) rows.push({ ...s, pool: p.name });
  }
  rows.sort((a, b) => use(b) - use(a));
  if (rows.length === 0) return h('p', { class: 'empty' }, 'No pool is used with its own keys.');
  return h('ul', { class: 'shares' }, rows.map((s) => h('li', { key: s.pool },
    h('div', { class: 'what' }, s.pool, waits(s), h('span', { class: 'figure' }, receivedOf(s))),
    shareBar(s, scaleOf([s])),
    h('small', null, `bar to ${percent(scaleOf([s]))} of the pool; by weight ${percent(s.guaranteed_ratio)}; borrowed ${short(s.borrowed_tokens)}, lent ${short(s.lent_tokens)}, debt ${short(s.debt_tokens)} tokens`))));
}

function limitMeters(t) {
  if (t.limits.length === 0) return h('p', { class: 'empty' }, 'None: only the pool’s share decides.');
  return t.limits.map((l) => meter(axisName(l.axis) + (l.pool ? ` in ${l.pool}` : ''), l.used, l.limit));
}

const budgetMeter = (b) => meter(b.name + (b.pool ? `, part of ${b.pool}` : ''), b.used, b.limit,
  { say: (n) => amount(n, b.unit), note: `begins again ${date(b.resets_at)}` });

const teamList = (teams) => h('ul', { class: 'teams' }, teams.map((t) => h('li', { key: t.name }, tenantLink(t.name),
  h('span', null, `weight ${short(t.weight)}, ${t.running} running`))));

function policyOf(name) {
  const rows = [];
  for (const p of state.answers.policy?.pools ?? []) {
    const t = p.tenants.find((one) => one.name === name);
    for (const l of t?.limits ?? []) rows.push({ ...l, tenant: name, pool: p.name });
  }
  return rows.length > 0 && panel('Policy', limitsTable(rows));
}
