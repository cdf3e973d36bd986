// The gateways that share limits: what each may hand out, and which are cut off. A gateway
// without others shows itself.

import { h } from '../dom.js';
import { bytes, duration, full, moment, plural, short } from '../format.js';
import { axisName, badge, bar, matches, meter, panel, poolChoice, poolsShown } from '../parts.js';
import { drawNow, state } from '../state.js';

export const title = 'Nodes';
export const needs = [];

const modes = {
  closed: 'It uses its grant until that expires, and then admits nothing.',
  open: 'It admits calls by its own count alone; all gateways together may exceed the limit.',
  local: 'It uses the part reserved for gateways that are cut off from the store.',
  learning: 'The store is new or has lost data: nothing is granted until earlier usage is known.',
};

export function view() {
  if (!state.snapshot) return [];
  const shared = poolsShown().filter((p) => p.sharing);
  return [
    h('div', { class: 'bar-tools' }, shared.length > 0 && poolChoice((p) => { state.pool = p; drawNow(); })),
    shared.map(map),
    self(shared.length > 0),
  ];
}

// self is this gateway's process.
function self(shared) {
  const s = state.snapshot;
  const p = s.process;
  return panel(h('span', null, 'Node ', h('b', null, s.node), badge('self', 'this gateway')),
    h('dl', { class: 'facts' },
      row('version', s.version), row('region', s.region), row('uptime', duration(p.uptime_seconds)), row('started', moment(p.started_at)),
      row('memory', bytes(p.memory_bytes) + (p.memory_limit_bytes ? ` of ${bytes(p.memory_limit_bytes)}` : '')),
      row('CPUs', full(p.cpus)), row('tenants', full(s.tenants)), row('policy', h('span', { class: 'mono', title: s.policy_hash }, s.policy_hash.slice(0, 12)))),
    !shared && h('p', { class: 'empty' }, 'Single gateway. Set ', h('code', null, 'store:'), ' to share limits between several.'));
}

function map(pool) {
  const s = pool.sharing;
  const cut = s.answered_seconds_ago < 0 || s.answered_seconds_ago > 5;
  return h('section', { class: 'panel', key: pool.name },
    h('h2', null, h('span', null, 'Pool ', h('b', null, pool.name)), h('span', { class: 'signs' }, badge(s.degraded ? 'bad' : 'good', s.degraded ? `degraded: ${s.degraded}` : 'shared'))),
    s.degraded && h('p', { class: 'alarm', role: 'alert' }, s.learning
      ? [s.learning, ` At most ${duration(s.learning_seconds || 0)} left.`]
      : [h('b', null, `${state.snapshot.node} is cut off from the store. `), modes[s.degraded]], s.error && h('span', { class: 'mono' }, ` ${s.error}`)),
    h('div', { class: `store ${cut ? 'cut' : ''}` }, h('b', null, 'store'), h('span', { title: `epoch ${s.epoch}` }, `answered ${s.answered_seconds_ago < 0 ? 'never' : `${duration(s.answered_seconds_ago)} ago`}, ${plural(s.beats, 'beat')}, ${full(s.failures)} failed`)),
    h('ul', { class: 'nodes' }, nodesOf(s).filter((n) => matches(n.name, n.region)).map((n) => node(n, s, pool, cut))),
    s.slots && h('div', { class: 'slots' }, meter(`${axisName('concurrency')} in all gateways`, s.slots.used, s.slots.limit, { note: s.slots.used > s.slots.used_here ? `${full(s.slots.used - s.slots.used_here)} of them in other gateways` : null })),
    s.looked_seconds_ago > 5 && h('p', { class: 'soft' }, `Figures of other gateways are ${duration(s.looked_seconds_ago)} old.`));
}

// nodesOf has this node also if it has never reached the store.
function nodesOf(s) {
  if (s.nodes.some((n) => n.name === state.snapshot.node)) return s.nodes;
  return [{ name: state.snapshot.node, region: state.snapshot.region, live: false, seen_seconds_ago: -1, tokens: 0, requests: 0, waiting_tokens: 0, grant_tpm: 0, grant_rpm: 0 }, ...s.nodes];
}

function node(n, s, pool, cut) {
  const own = n.name === state.snapshot.node;
  const lost = own ? Boolean(s.degraded) : !n.live;
  return h('li', { key: n.name, class: `node ${lost ? 'lost' : 'reached'} ${cut && !own ? 'old' : ''}` },
    h('div', { class: 'what' }, h('b', { title: n.name }, n.name), own && badge('self', 'this gateway'), lost && badge('bad', own ? s.degraded : 'cut off')),
    h('small', null, n.region, ' · beat ', n.seen_seconds_ago < 0 ? 'never' : `${duration(n.seen_seconds_ago + Math.max(0, s.looked_seconds_ago))} ago`),
    figures(n, s, pool, own));
}

// figures are a node's part of the pool's first limit.
function figures(n, s, pool, own) {
  const axis = pool.limits[0]?.axis;
  const limit = pool.limits[0]?.limit || 1;
  if (axis === 'tokens') return grant(n.tokens, n.grant_tpm, limit, 'a minute', row('waiting', `${short(n.waiting_tokens)} tokens`));
  if (axis === 'input_tokens') return grant(n.input_tokens, n.grant_itpm, limit, 'a minute', null);
  if (axis === 'output_tokens') return grant(n.output_tokens, n.grant_otpm, limit, 'a minute', null);
  if (axis === 'requests') return grant(n.requests, n.grant_rpm, limit, 'a minute', null);
  if (s.slots && own) return grant(s.slots.used_here, s.slots.grant_here, limit, 'slots', null);
  return s.slots ? h('p', { class: 'soft' }, 'Its slots are in the total below.') : null;
}

const grant = (used, granted, limit, unit, more) => [
  bar([{ part: used / limit, class: 'fill' }], granted / limit),
  h('dl', null, row('granted', `${short(granted)} ${unit}`), row('used', short(used)), more),
];

const row = (name, value) => h('div', null, h('dt', null, name), h('dd', null, value));
