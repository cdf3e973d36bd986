// The keys of those tenants that a caller may make keys for who may do nothing else.

import { h } from '../dom.js';
import { panel } from '../parts.js';
import { state } from '../state.js';
import { keyList } from './tenant.js';

export const title = 'Keys';
export const needs = ['keys'];

export function view() {
  const names = [...new Set((state.answers.keys?.keys ?? []).map((k) => k.tenant))].sort();
  if (names.length === 0) return panel('Keys', h('p', { class: 'empty' }, state.answers.keys ? `No keys of ${(state.me?.tenants ?? []).join(', ')}.` : 'Waiting for the gateway …'));
  return names.map((name) => panel(name, keyList(name)));
}
