// Decisions as rows: what was decided, why, and about whom.

import { h } from './dom.js';
import { clock, dollars, duration, percent, short } from './format.js';
import { axisName, badge, requestLink, tenantLink, toRequest } from './parts.js';
import { state } from './state.js';

// kinds are those of decisions, the ones that need attention first.
export const kinds = ['refused', 'failed', 'shadow', 'throttled', 'budget', 'reloaded', 'admitted', 'ended'];
export const kindOf = (e) => (e.shadow ? 'shadow' : e.kind);

const reasons = {
  share: (r) => `Fair share of ${r.of} used up`,
  queue_full: (r) => `Queue of ${r.of} full: ${short(r.used)} waiting`,
  overloaded: (r) => `Queue of ${r.of} full: ${short(r.used)} waiting`,
  draining: () => 'Gateway is draining',
  store: () => 'State cannot be written',
  store_lost: (r) => `Store lost: nothing granted to ${r.of}`,
  throttled: (r) => `Upstreams of ${r.of} asked for a pause`,
};

// refusalOf is the limit that refused, and how it stood.
function refusalOf(r, tenant) {
  if (reasons[r.reason]) return reasons[r.reason](r);
  const money = r.axis?.startsWith('usd');
  const say = (n) => (money ? dollars(n / 1e6) : short(n)); // money comes in millionths
  const what = r.reason === 'budget' ? `Budget ${r.axis}` : axisName(r.axis || r.reason);
  const whose = r.of === tenant ? '' : ` of ${r.of}`; // the row names its tenant
  return `${what}${whose}: ${say(r.used)} of ${say(r.limit)} used, ${say(r.asked)} asked for`;
}

// reasonOf is a decision in a sentence, its reason first.
export function reasonOf(e) {
  if (e.refusal) return `${refusalOf(e.refusal, e.tenant)} · ${e.shadow ? 'not enforced' : `${e.refusal.status} ${e.refusal.code}`}`;
  switch (e.kind) {
    case 'failed': return `${failureOf(e.failure)} · ${e.failure.status || 'no answer'}`;
    case 'budget': return budgetOf(e.warning);
    case 'admitted': return e.waited_seconds >= 0.001 ? `Waited ${duration(e.waited_seconds)}` : 'No wait';
    case 'ended': return `${ends[e.ending] ?? e.ending} after ${duration(e.ran_seconds)}`;
    case 'reloaded': return ofKeys(e) ? 'API keys have changed' : `Policy ${e.policy_hash.slice(0, 12)} in force`;
    default: return cutsOf(e.cuts ?? []);
  }
}

function budgetOf({ percent: part, budget: b }) {
  const say = b.unit === 'usd' ? dollars : short;
  return `${part}% of the budget ${b.name} is used: ${say(b.used)} of ${say(b.limit)}`;
}

// ofKeys reports whether only API keys have changed since the reload before.
const ofKeys = (e) => state.events.findLast((o) => o.kind === 'reloaded' && o.at < e.at)?.policy_hash === e.policy_hash;

const ends = { settled: 'Completed', broken: 'Broken off', released: 'Nothing used; released', charged: 'Charged in between' };

const classes = {
  connect: 'cannot connect', timeout: 'timed out', broken: 'connection lost', truncated: 'broke off its answer', event: 'reported an error in its stream',
  idle: 'fell silent', busy: 'asked for a pause',
};

function failureOf(f) {
  if (f.class === 'unavailable') return 'Upstreams down; the call was not sent';
  if (f.class === 'panic') return 'The gateway failed';
  const what = classes[f.class] ?? (/^\d+$/.test(f.class) ? `answered ${f.class}` : f.class);
  return `Upstream ${f.upstream || 'of the pool'} ${what}`;
}

function cutsOf(cuts) {
  if (cuts.length === 0) return 'Full rate again';
  if (cuts.every((c) => c.rate_ratio === 0 && c.tpm === 0 && c.rpm === 0)) return 'No upstream works; calls fail immediately';
  const part = 1 - cuts.reduce((sum, c) => sum + c.rate_ratio, 0);
  const less = cuts.some((c) => c.tpm > 0 || c.rpm > 0);
  return `Pool at ${percent(Math.max(0, part))} of its rate${less ? ', and lower limits declared by an upstream' : ''}`;
}

// tookOf is how many tokens a decision was about.
export function tookOf(e) {
  if (e.usage) return short(e.usage.input + e.usage.output);
  return e.asked ? short(e.asked.input + e.asked.output) : '';
}

export const eventColumns = [
  { name: 'Time', of: (e) => h('time', { title: e.time }, clock(e.at)) },
  { name: 'Decision', of: (e) => badge(kindOf(e)) },
  { name: 'Reason', kind: 'why', of: (e) => h('span', { title: e.refusal?.message ?? e.failure?.cause ?? null }, reasonOf(e)) },
  { name: 'Tenant', kind: 'name', of: (e) => tenantLink(e.tenant) },
  { name: 'Pool', wide: true, of: (e) => e.pool },
  { name: 'Tokens', kind: 'number', wide: true, of: tookOf },
  { name: 'Request', wide: true, of: (e) => requestLink(e.request) },
];

export const openEvent = (e) => (e.request ? toRequest(e.request) : location.hash);

const classOf = (c) => [c.kind, c.wide && 'wide'].filter(Boolean).join(' ') || null;

// feed lists events, the newest first.
export function feed(events, label) {
  return h('div', { class: 'flat', role: 'region', tabindex: '0', 'aria-label': label }, h('table', null,
    h('thead', null, h('tr', null, eventColumns.map((c) => h('th', { scope: 'col', class: classOf(c) }, c.name)))),
    h('tbody', null, events.map((e) => h('tr', { key: e.id, onclick: (click) => { if (!click.target.closest('a')) location.hash = openEvent(e); } },
      eventColumns.map((c) => h('td', { class: classOf(c) }, c.of(e))))))));
}

// newest are the last events that pass, the newest first.
export function newest(most, passes) {
  const out = [];
  for (let i = state.events.length - 1; i >= 0 && out.length < most; i--) if (passes(state.events[i])) out.push(state.events[i]);
  return out;
}
