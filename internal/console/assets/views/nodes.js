// The gateways that share limits: what each may hand out, and who is cut off.

import { h } from '../dom.js';
import { duration, short } from '../format.js';
import { badge, bar, matches, panel, poolChoice, poolsShown } from '../parts.js';
import { drawNow, state } from '../state.js';

export const title = 'Nodes';
export const needs = [];

const modes = {
  closed: 'It hands out what it was granted until that ends, and then nothing.',
  open: 'It hands out as if it were alone: the limit is not promised.',
  local: 'It hands out the part that is withheld for nodes that are cut off.',
  learning: 'The store has lost its memory: nothing is granted until what was used before has left the minute.',
};

export function view() {
  const pools = poolsShown();
  const shared = pools.filter((p) => p.sharing);
  if (!state.snapshot) return [];
  return [
    h('div', { class: 'bar-tools' }, poolChoice((p) => { state.pool = p; drawNow(); })),
    shared.length > 0 ? shared.map(map) : panel(h('span', null, 'Node ', h('b', null, state.snapshot.node)),
      h('p', { class: 'empty' }, 'This gateway is alone: what it counts is its own. With ', h('code', null, 'store:'), ' several share the limits of their pools.')),
  ];
}

function map(pool) {
  const s = pool.sharing;
  const cut = s.answered_seconds_ago < 0 || s.answered_seconds_ago > 5;
  return h('section', { class: 'panel', key: pool.name },
    h('h2', null, h('span', null, 'Pool ', h('b', null, pool.name)), h('span', { class: 'signs' }, badge(s.degraded ? 'bad' : 'good', s.degraded ? `degraded: ${s.degraded}` : 'shared'))),
    s.degraded && h('p', { class: 'alarm', role: 'alert' }, h('b', null, `${state.snapshot.node} is cut off from the store. `), modes[s.degraded], s.error && h('span', { class: 'mono' }, ` ${s.error}`)),
    h('div', { class: `store ${cut ? 'cut' : ''}` }, h('b', null, 'store'), h('span', { title: `epoch ${s.epoch}` }, `answered ${s.answered_seconds_ago < 0 ? 'never' : `${duration(s.answered_seconds_ago)} ago`}, ${short(s.beats)} beats, ${short(s.failures)} failed`)),
    h('ul', { class: 'nodes' }, nodesOf(s).filter((n) => matches(n.name, n.region)).map((n) => node(n, s, pool, cut))),
    s.looked_seconds_ago > 5 && h('p', { class: 'soft' }, `What this node knows of the others is ${duration(s.looked_seconds_ago)} old.`));
}

// nodesOf has this node also where it has never reached the store.
function nodesOf(s) {
  if (s.nodes.some((n) => n.name === state.snapshot.node)) return s.nodes;
  return [{ name: state.snapshot.node, region: state.snapshot.region, live: false, seen_seconds_ago: -1, tokens: 0, requests: 0, waiting_tokens: 0, grant_tpm: 0, grant_rpm: 0 }, ...s.nodes];
}

function node(n, s, pool, cut) {
  const self = n.name === state.snapshot.node;
  const lost = self ? Boolean(s.degraded) : !n.live;
  const limit = pool.limits[0]?.limit || 1;
  const [grant, used] = pool.limits[0]?.axis === 'requests' ? [n.grant_rpm, n.requests] : [n.grant_tpm, n.tokens];
  return h('li', { key: n.name, class: `node ${lost ? 'lost' : 'reached'} ${cut && !self ? 'old' : ''}` },
    h('div', { class: 'what' }, h('b', { title: n.name }, n.name), self && badge('self', 'this node'), lost && badge('bad', self ? s.degraded : 'cut off')),
    h('small', null, n.region, ' · beat ', n.seen_seconds_ago < 0 ? 'never' : `${duration(n.seen_seconds_ago + Math.max(0, s.looked_seconds_ago))} ago`),
    bar([{ part: used / limit, class: 'fill' }], grant / limit),
    h('dl', null, row('granted', `${short(grant)} a minute`), row('used', short(used)), row('waiting', `${short(n.waiting_tokens)} tokens`)));
}

const row = (name, value) => h('div', null, h('dt', null, name), h('dd', null, value));
