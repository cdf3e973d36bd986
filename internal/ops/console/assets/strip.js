// The strip below the head, on every page: the caption of a demo, and all that is wrong now, errors first.

import { h } from './dom.js';
import { plural, since } from './format.js';
import { state } from './state.js';

const shown = 4;

const names = {
  upstream_down: 'Upstream down', store_lost: 'Store lost', not_ready: 'Not ready', policy_invalid: 'Policy invalid',
  draining: 'Draining', store_learning: 'Store learning', store_unreadable: 'Store unreadable', restart_needed: 'Restart needed', upstream_silent: 'Upstream silent',
  limit_lower_than_configured: 'Limit lower than configured', gateway_missing: 'Gateway missing', budgets_begin_anew: 'Budgets begin anew', runtime_unfit: 'Set aside',
};
const places = { upstream_down: 'overview', store_lost: 'nodes', store_learning: 'nodes', store_unreadable: 'nodes', not_ready: 'nodes', policy_invalid: 'policy', restart_needed: 'policy', upstream_silent: 'overview', limit_lower_than_configured: 'overview', gateway_missing: 'nodes', budgets_begin_anew: 'tenants', runtime_unfit: 'tenants' };

export function strip(page) {
  const list = conditions();
  const caption = state.snapshot?.caption;
  return [
    caption && h('div', { key: 'caption', class: 'caption', role: 'status' }, caption),
    list.slice(0, shown).map((c) => h('div', { key: `${c.kind} ${c.pool} ${c.upstream}`, class: `condition ${c.severity}` },
      h('svg', { class: 'sign', viewBox: '0 0 16 16', width: '16', height: '16', 'aria-hidden': 'true' }, h('path', { d: 'M8 1.5 15 14H1Z' }), h('path', { class: 'stroke', d: 'M8 6v4m0 1.6v.4' })),
      h('b', null, names[c.kind] ?? c.kind, c.since && ` since ${since(c.since)}`),
      h('span', { class: 'said', title: c.message }, c.message, failures(c)),
      places[c.kind] && places[c.kind] !== page && h('a', { href: `#/${places[c.kind]}` }, `see ${places[c.kind]}`))),
    list.length > shown && h('div', { key: 'more', class: 'condition warning' }, h('b', null, `${list.length - shown} more`)),
  ].flat().filter(Boolean);
}

// conditions are what the gateway reports, after what this page knows by itself.
function conditions() {
  const own = state.problem ? [{ kind: 'Not live', severity: 'error', since: state.problemSince, message: `${state.problem}. Figures are those of before.` }] : [];
  return [...own, ...(state.snapshot?.conditions ?? [])];
}

function failures(c) {
  const pool = c.kind === 'upstream_down' && state.snapshot.pools.find((p) => p.name === c.pool);
  return pool ? ` ${plural(pool.failed_last_minute, 'call')} failed in the last minute.` : '';
}

// outage is the condition of a pool whose upstreams are all down.
export const outage = (pool) => state.snapshot.conditions.find((c) => c.kind === 'upstream_down' && c.severity === 'error' && c.pool === pool.name);
