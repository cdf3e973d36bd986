// The policy in force: what applies to whom, and where it is written.

import { request } from '../api.js';
import { h } from '../dom.js';
import { refresh } from '../feed.js';
import { full, percent, plural, since } from '../format.js';
import { loading, matches, panel, poolChoice, tenantLink, toTenant } from '../parts.js';
import { drawNow, may, state } from '../state.js';
import { table } from '../table.js';

export const title = 'Policy';
export const needs = ['policy'];

export function view() {
  const rows = [];
  for (const p of (state.answers.policy?.pools ?? []).filter((one) => !state.pool || one.name === state.pool)) {
    if (matches(p.name)) for (const l of p.limits) rows.push({ ...l, tenant: '', pool: p.name });
    for (const t of p.tenants) {
      if (!matches(t.name, t.tier)) continue;
      rows.push({ tenant: t.name, pool: p.name, key: 'share', value: percent(t.share_ratio), computed: true });
      for (const l of t.limits) rows.push({ ...l, tenant: t.name, pool: p.name });
    }
  }
  return [
    h('div', { class: 'bar-tools' }, h('span', { class: 'count' }, plural(rows.length, 'setting')), poolChoice((p) => { state.pool = p; drawNow(); }), status(), may('operate') && h('button', { class: 'pause', title: 'read the files now', onclick: reload }, 'Reload')),
    problems(),
    h('section', { class: 'panel list' }, table({
      name: 'Policy', rows, columns, keyOf: (r) => `${r.pool}\n${r.tenant}\n${r.of ?? ''}\n${r.key}`,
      open: (r) => (r.tenant ? toTenant(r.tenant) : location.hash), rowClass: (r) => (r.tenant ? null : 'of-pool'),
      empty: state.answers.policy ? 'No matching tenant or pool.' : loading,
    })),
  ];
}

// limitsTable is a short list of the same, for one tenant.
export function limitsTable(rows) {
  const own = columns.slice(1);
  return h('div', { class: 'flat', role: 'region', tabindex: '0', 'aria-label': 'Settings' }, h('table', null, h('thead', null, h('tr', null, own.map((c) => h('th', { scope: 'col', class: c.kind }, c.name)))),
    h('tbody', null, rows.map((r) => h('tr', { key: `${r.pool}\n${r.of ?? ''}\n${r.key}` }, own.map((c) => h('td', { class: c.kind }, c.of(r))))))));
}

const columns = [
  { name: 'Tenant', kind: 'name', of: (r) => tenantLink(r.tenant) ?? h('b', null, 'pool') },
  { name: 'Pool', of: (r) => r.pool },
  { name: 'Setting', of: (r) => [h('span', { class: 'mono' }, r.key), r.of && h('span', { class: 'soft' }, ` of ${r.of}`)] },
  { name: 'Value', kind: 'number', of: (r) => (typeof r.value === 'number' ? full(r.value) : String(r.value)) },
  { name: 'Where', kind: 'from', of: (r) => (r.computed ? h('span', { class: 'soft' }, 'if all tenants ask for more') : h('span', { class: r.from ? 'mono' : 'soft' }, r.from || 'default')) },
];

function status() {
  const p = state.snapshot?.policy;
  return h('span', { class: 'count' }, h('span', { class: 'mono' }, (state.snapshot?.policy_hash ?? '').slice(0, 12)), p && ` in force since ${since(p.loaded_at)}`);
}

// reload reads the files. What is wrong with them comes with the next snapshot.
const reload = () => request('api/v1/reload', { method: 'POST', headers: { 'X-Llmgov-Why': 'asked for in the console' } }).catch(() => {}).finally(() => refresh('policy').catch(() => {}));

function problems() {
  const p = state.snapshot?.policy;
  if (!p || p.success) return null;
  return panel('Invalid files; the previous policy stays in force', h('ul', { class: 'problems' }, p.problems.map((one) => h('li', null,
    one.file && h('span', { class: 'mono' }, one.line ? `${one.file}:${one.line}:${one.column}` : one.file), ` ${one.message}`))));
}
