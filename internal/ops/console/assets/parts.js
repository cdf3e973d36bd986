// What several views show.

import { coloursOf } from './colours.js';
import { h } from './dom.js';
import { duration, exact, middle, percent, short } from './format.js';
import { name } from './names.js';
import { state } from './state.js';

export const toTenant = (tenant) => `#/tenant/${encodeURIComponent(tenant)}`;
export const toRequest = (id) => `#/request/${encodeURIComponent(id)}`;
export const tenantLink = (tenant) => (tenant ? h('a', { class: 'name-link', href: toTenant(tenant), title: tenant }, name(tenant)) : null);
export const wholeTenantLink = (tenant) => (tenant ? h('a', { href: toTenant(tenant) }, tenant) : null);
export const requestLink = (id) => (id ? h('a', { class: 'mono', href: toRequest(id), title: id }, middle(id, 16)) : null);

export const badge = (kind, text = kind) => h('span', { class: `badge ${kind}` }, text);
export const panel = (title, ...body) => h('section', { class: 'panel' }, title && h('h2', null, title), body);
export const loading = 'Loading…';

const names = {
  tokens: 'Tokens / min', requests: 'Requests / min', concurrency: 'Concurrent calls', slots: 'Concurrent calls',
  input_tokens: 'Input tokens / min', output_tokens: 'Output tokens / min',
};
export const axisName = (axis) => names[axis] ?? axis;

// meter is how full a limit is, in tokens, requests or dollars.
export function meter(label, used, limit, { unit, note } = {}) {
  const part = limit > 0 ? used / limit : 0;
  const say = unit === 'usd' ? exact : short;
  return h('div', { class: `meter ${part >= 1 ? 'over' : part > 0.9 ? 'near' : ''}`, key: label },
    h('div', { class: 'what' }, h('span', null, label), h('span', { class: 'figure', title: `${exact(used, unit)} of ${exact(limit, unit)}` }, h('b', null, say(used, unit)), ` of ${say(limit, unit)}`)),
    bar([{ part, class: 'fill' }]),
    note && h('small', null, note));
}

// bar paints parts of a whole, one over the other, and a mark.
export function bar(fills, mark) {
  return h('div', { class: 'bar' },
    fills.map((f) => h('i', { class: f.class, style: { width: `${Math.min(100, 100 * f.part).toFixed(2)}%`, ...(f.colour && { '--colour': f.colour }) } })),
    mark !== undefined && h('i', { class: 'mark', style: { left: `${Math.min(100, 100 * mark).toFixed(2)}%` } }));
}

// shareBar is what a tenant received of a pool and, hatched, asked for, with a mark at what it
// was entitled to. Bars of a pool share a scale.
export const shareBar = (share, scale, colour) => bar([
  share.demand_ratio > share.received_ratio && { part: share.demand_ratio / scale, class: 'wanted', colour },
  { part: share.received_ratio / scale, class: share.received_ratio > 0 ? 'fill some' : 'fill', colour },
].filter(Boolean), share.entitled_ratio / scale);

export const shareLegend = (scale, colour) => h('p', { class: 'legend', style: { '--colour': colour ?? 'var(--soft)' } },
  h('span', null, h('i', { class: 'key fill' }), 'received'), h('span', null, h('i', { class: 'key wanted' }), 'asked for'),
  h('span', null, h('i', { class: 'key mark' }), 'entitled'), scale > 0 && h('span', { class: 'scale' }, `scale 0–${percent(scale)} of the pool`));

// budgetName is Tokens / day, or $ / month.
export const budgetName = (b) => `${{ usd: '$', tokens: 'Tokens', requests: 'Requests' }[b.unit] ?? b.unit} / ${b.per}${b.pool ? `, part of ${b.pool}` : ''}`;

export const colourOf = (tenant) => coloursOf([tenant]).get(tenant);

// scaleOf is what a bar of full length is: a round part of the pool that has room for all.
export function scaleOf(shares) {
  let most = 0;
  for (const s of shares) most = Math.max(most, s.received_ratio, s.entitled_ratio);
  return [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((scale) => scale >= most) ?? 1;
}

// use orders tenants: those first that have most, or are entitled to most of what they lack.
export const use = (s) => Math.max(s.received_ratio, s.entitled_ratio) + (s.running + s.queued) / 1e6;
export const busy = (s) => s.demand_ratio > 0 || use(s) > 0;

// receivedOf says it in words.
export const receivedOf = (s) => [h('b', null, percent(s.received_ratio)), ' of ', percent(s.entitled_ratio)];

export const waits = (s) => (s.queued > 0 ? h('span', { class: 'badge waiting', title: `${s.queued} calls wait; the first for ${duration(s.oldest_wait_seconds)}` }, `${short(s.queued)} waiting`, h('span', { class: 'long' }, `, ${duration(s.oldest_wait_seconds)}`)) : null);

export const matches = (...texts) => {
  const wanted = state.filter.trim().toLowerCase();
  return !wanted || texts.some((t) => t && t.toLowerCase().includes(wanted));
};

export const poolsShown = () => (state.snapshot?.pools ?? []).filter((p) => !state.pool || p.name === state.pool);

// poolChoice is there when there are several.
export function poolChoice(choose) {
  const pools = state.snapshot?.pools ?? [];
  if (pools.length < 2) return null;
  return h('label', { class: 'choice' }, 'Pool ', h('select', { value: state.pool, onchange: (e) => choose(e.target.value), ref: (el) => { el.value = state.pool; } },
    h('option', { value: '' }, 'all'), pools.map((p) => h('option', { value: p.name }, p.name))));
}
