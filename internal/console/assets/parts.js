// What several views show.

import { h } from './dom.js';
import { clock, duration, full, percent, short } from './format.js';
import { state } from './state.js';

export const toTenant = (name) => `#/tenant/${encodeURIComponent(name)}`;
export const toRequest = (id) => `#/request/${encodeURIComponent(id)}`;
export const tenantLink = (name) => (name ? h('a', { href: toTenant(name), title: name }, name) : null);
export const requestLink = (id) => (id ? h('a', { class: 'mono', href: toRequest(id), title: id }, id.length > 16 ? `${id.slice(0, 12)}…` : id) : null);

export const badge = (kind, text = kind) => h('span', { class: `badge ${kind}` }, text);
export const panel = (title, ...body) => h('section', { class: 'panel' }, title && h('h2', null, title), body);

const names = { tokens: 'Tokens a minute', requests: 'Requests a minute', concurrency: 'At once', slots: 'At once', input_tokens: 'Input tokens a minute', output_tokens: 'Output tokens a minute' };
export const axisName = (axis) => names[axis] ?? axis;

// meter is how full a limit is.
export function meter(label, used, limit, { say = short, note } = {}) {
  const part = limit > 0 ? used / limit : 0;
  return h('div', { class: `meter ${part >= 1 ? 'over' : part > 0.9 ? 'near' : ''}`, key: label },
    h('div', { class: 'what' }, h('span', null, label), h('span', { class: 'figure', title: `${full(used)} of ${full(limit)}` }, h('b', null, say(used)), ` of ${say(limit)}`)),
    bar([{ part, class: 'fill' }]),
    note && h('small', null, note));
}

// bar paints parts of a whole, one over the other, and a mark.
export function bar(fills, mark) {
  return h('div', { class: 'bar' },
    fills.map((f) => h('i', { class: f.class, style: { width: `${Math.min(100, 100 * f.part).toFixed(2)}%`, ...(f.colour && { background: f.colour }) } })),
    mark !== undefined && h('i', { class: 'mark', style: { left: `${Math.min(100, 100 * mark).toFixed(2)}%` } }));
}

// shareBar is what a tenant received of a pool, to the mark of what it was entitled to.
// Bars of a pool share a scale.
export const shareBar = (share, scale, colour) => bar([
  { part: share.demand_ratio / scale, class: 'wanted' },
  { part: share.received_ratio / scale, class: 'fill', colour },
], share.entitled_ratio / scale);

// scaleOf is what a bar of full length is: a round part of the pool that has room for all.
export function scaleOf(shares) {
  let most = 0;
  for (const s of shares) most = Math.max(most, s.received_ratio, s.entitled_ratio);
  return [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((scale) => scale >= most) ?? 1;
}

export const use = (s) => Math.max(s.received_ratio, s.demand_ratio) + (s.running + s.queued) / 1e6;

// receivedOf says it in words.
export const receivedOf = (s) => [h('b', null, percent(s.received_ratio)), ' of ', percent(s.entitled_ratio)];

export const waits = (s) => (s.queued > 0 ? h('span', { class: 'badge waiting', title: 'calls that wait, and how long the first has' }, `${short(s.queued)} wait, ${duration(s.oldest_wait_seconds)}`) : null);

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

// reasonOf is a decision in a few words.
export function reasonOf(e) {
  const r = e.refusal;
  if (r) return `${e.shadow ? 'shadow: ' : ''}${r.status} ${r.code}, ${r.axis || r.reason} of ${r.of}`;
  if (e.kind === 'admitted') return e.waited_seconds >= 0.001 ? `waited ${duration(e.waited_seconds)}` : 'at once';
  if (e.kind === 'ended') return `${e.ending} after ${duration(e.ran_seconds)}`;
  if (e.kind === 'reloaded') return `policy ${e.policy_hash.slice(0, 12)}`;
  return e.cuts?.length ? `pool at ${percent(Math.min(...e.cuts.map((c) => c.rate_ratio)))} of its rate` : 'pool at its full rate';
}

// tookOf is how many tokens a decision was about.
export function tookOf(e) {
  if (e.usage) return short(e.usage.input + e.usage.output);
  return e.asked ? short(e.asked.input + e.asked.output) : '';
}

export const eventColumns = [
  { name: 'Time', of: (e) => h('time', { title: e.time }, clock(e.at)) },
  { name: 'What', of: (e) => badge(e.shadow ? 'shadow' : e.kind, e.shadow ? 'shadow' : e.kind) },
  { name: 'Tenant', kind: 'name', of: (e) => tenantLink(e.tenant) },
  { name: 'Pool', wide: true, of: (e) => e.pool },
  { name: 'Tokens', kind: 'number', wide: true, of: tookOf },
  { name: 'Why', kind: 'why', of: (e) => h('span', { title: e.refusal?.message ?? null }, reasonOf(e)) },
  { name: 'Request', wide: true, of: (e) => requestLink(e.request) },
];

export const openEvent = (e) => (e.request ? toRequest(e.request) : location.hash);

// feed lists events, the newest first.
export function feed(events, name) {
  return h('div', { class: 'flat', role: 'region', tabindex: '0', 'aria-label': name }, h('table', null,
    h('thead', null, h('tr', null, eventColumns.map((c) => h('th', { scope: 'col', class: [c.kind, c.wide && 'wide'].filter(Boolean).join(' ') || null }, c.name)))),
    h('tbody', null, events.map((e) => h('tr', { key: e.id, onclick: (click) => { if (!click.target.closest('a')) location.hash = openEvent(e); } },
      eventColumns.map((c) => h('td', { class: [c.kind, c.wide && 'wide'].filter(Boolean).join(' ') || null }, c.of(e))))))));
}

// newest are the last events that pass, the newest first.
export function newest(most, passes) {
  const out = [];
  for (let i = state.events.length - 1; i >= 0 && out.length < most; i--) if (passes(state.events[i])) out.push(state.events[i]);
  return out;
}
