// Why a request was refused: every limit as it stood then, and which one decided.

import { h } from '../dom.js';
import { feed, newest } from '../events.js';
import { duration, exact, full, moment, percent } from '../format.js';
import { explain } from '../feed.js';
import { axisName, badge, bar, loading, panel, wholeTenantLink } from '../parts.js';
import { state } from '../state.js';

export const title = 'Request';
export const needs = [];

export function view(id) {
  explain(id);
  const { answer, error } = state.explained.get(id) ?? {};
  const events = newest(20, (e) => e.request === id);
  const known = !error && answer;
  return [
    h('header', { class: 'title' }, h('p', { class: 'mono' }, id), known ? headline(answer) : h('h1', null, error ? outcomeOf(events) : loading)),
    known && facts(answer),
    known && panel('Every limit that applied, strictest first', answer.limits.length > 0
      ? h('ol', { class: 'limits' }, answer.limits.map((l, i) => limitRow(l, i === decisionOf(answer).limit)))
      : h('p', { class: 'empty' }, 'Rejected before any limit was checked.')),
    known && answer.upstreams && panel('Upstreams, in the order in which they are tried', h('ol', { class: 'limits' }, answer.upstreams.map(upstreamRow))),
    error && events.length === 0 && panel(null, h('p', { class: 'empty' }, error)),
    events.length > 0 && panel('Events of this request', feed(events, 'Decisions about the request')),
  ];
}

const decisionOf = (x) => x.without_shadow ?? x.decision;

// outcomeOf is how a request went that was not refused, as far as events tell.
function outcomeOf(events) {
  if (events.some((e) => e.kind === 'failed')) return 'Failed';
  if (events.some((e) => e.kind === 'ended')) return 'Admitted, and ended';
  return events.length > 0 ? 'Admitted' : 'Unknown request';
}

function headline(x) {
  const d = decisionOf(x);
  return [
    h('h1', null, x.without_shadow ? 'Admitted in shadow; would have been refused' : 'Refused', ' ', badge('refused', `${d.status} ${d.code}`)),
    h('p', { class: 'message' }, d.message),
  ];
}

const facts = (x) => h('dl', { class: 'facts wide-facts' },
  fact('tenant', wholeTenantLink(x.tenant)), fact('pool', x.pool), fact('model', x.model), fact('decided', moment(x.at)),
  fact('asked for', x.tokens ? `${full(x.input)} + ${full(x.output)} tokens` : ''), fact('waited', `${duration(x.waited_seconds ?? 0)} of ${duration(x.max_wait_seconds ?? 0)}`),
  fact('retry after', duration(decisionOf(x).retry_after_seconds)), fact('priority', x.priority));

const fact = (name, value) => (value ? h('div', null, h('dt', null, name), h('dd', null, value)) : null);

function limitRow(l, decides) {
  const say = (n) => exact(n, l.axis.startsWith('usd') ? 'usd' : '');
  return h('li', { class: decides ? 'decides' : null },
    h('div', { class: 'what' },
      h('span', null, h('b', null, l.kind === 'pool' ? `pool ${l.of}` : l.of), ' ', h('span', { class: 'mono' }, l.key), ' ', h('span', { class: 'soft' }, axisName(l.axis)), decides && [' ', badge('refused', 'decided')]),
      h('span', { class: 'figure' }, h('b', null, say(l.used)), ' used, ', say(l.asked), ' asked for, of ', say(l.limit), l.most && ` (adaptive, up to ${full(l.most)})`)),
    bar([{ part: (l.used + l.asked) / l.limit, class: 'asked' }, { part: l.used / l.limit, class: 'fill' }]),
    h('small', null, l.wait_seconds > 0 ? `room in ${duration(l.wait_seconds)}` : `${percent(Math.max(0, l.left) / l.limit)} left`, ' · ', h('span', { class: 'mono' }, l.from || 'default')));
}

const states = {
  room: 'has room', full: 'full', closed: 'closed: it failed, or asked for a pause', too_small: 'too small for the call',
  not_allowed: 'not allowed for this tenant', per_tenant: 'the tenant runs as many calls there as it may, because some have failed',
};

function upstreamRow(u) {
  return h('li', null,
    h('div', { class: 'what' },
      h('span', null, h('b', null, u.name), ' ', h('span', { class: 'soft' }, `order ${u.order}`)),
      h('span', { class: 'figure' }, u.key ? `${u.key}: ${full(u.used ?? 0)} used, ${full(u.asked)} asked for, of ${full(u.limit)}` : '')),
    h('small', null, states[u.state] ?? u.state, u.wait_seconds > 0 && `, room in ${duration(u.wait_seconds)}`));
}
