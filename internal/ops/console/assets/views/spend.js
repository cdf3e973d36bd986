// What calls have taken and cost since the month began.

import { refresh } from '../feed.js';
import { h } from '../dom.js';
import { exact, full, plural, short } from '../format.js';
import { bar, loading, matches, tenantLink } from '../parts.js';
import { drawNow, state } from '../state.js';
import { table } from '../table.js';

export const title = 'Spend';
export const needs = ['spend'];

const keys = ['team', 'model', 'upstream', 'day'];

export function view() {
  const answer = state.answers.spend;
  const by = answer?.by[0];
  const rows = (answer?.rows ?? []).filter((r) => matches(of(r, by))).sort((a, b) => (by === 'day' ? b.day.localeCompare(a.day) : b.usd - a.usd || b.calls - a.calls));
  const most = rows.reduce((n, r) => Math.max(n, r.usd), 0);
  return [
    h('div', { class: 'bar-tools' },
      h('div', { class: 'toggles', role: 'group', 'aria-label': 'Added up by' }, keys.map((k) => h('button', { key: k, 'aria-pressed': String(k === state.spendBy), onclick: () => choose(k) }, k))),
      answer && h('span', { class: 'count' }, `${exact(answer.total.usd, 'usd')} for ${plural(answer.total.calls, 'call')}, ${answer.from} to ${answer.to} (${answer.timezone}), of ${answer.all_gateways ? 'all gateways' : 'this gateway'}`)),
    h('section', { class: 'panel list' }, table({
      name: 'Spend', rows, columns: columns(by, most), keyOf: (r) => of(r, by), empty: !answer ? loading : 'No calls have ended since the month began.',
    })),
  ];
}

function choose(by) {
  state.spendBy = by;
  refresh('spend').catch(() => {}); // else the next poll will
  drawNow();
}

const of = (r, by) => (by === 'team' ? [r.tenant, r.team].filter(Boolean).join('/') : r[by]);

const columns = (by, most) => [
  { name: { team: 'Team', model: 'Model', upstream: 'Upstream', day: 'Day' }[by], kind: 'name', of: (r) => (by === 'team' ? tenantLink(of(r, by)) : of(r, by)) },
  { name: 'Dollars', kind: 'number', of: (r) => h('span', { title: r.estimated_usd > 0 ? `${exact(r.estimated_usd, 'usd')} of it for tokens that were estimated` : null }, exact(r.usd, 'usd')) },
  { name: 'Of the dearest', kind: 'wide-bar', of: (r) => bar([{ part: most > 0 ? r.usd / most : 0, class: 'fill' }]) },
  { name: 'Calls', kind: 'number', of: (r) => full(r.calls) },
  { name: 'Input', kind: 'number', wide: true, of: (r) => h('span', { title: `${full(r.input_tokens)} tokens, ${full(r.cached_input_tokens)} of them cached` }, short(r.input_tokens)) },
  { name: 'Output', kind: 'number', wide: true, of: (r) => h('span', { title: `${full(r.output_tokens)} tokens` }, short(r.output_tokens)) },
];
