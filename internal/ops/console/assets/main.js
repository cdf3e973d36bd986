// The frame around the views: routes, keys, theme.

import { h, render } from './dom.js';
import { follow, poll, refresh } from './feed.js';
import { toRequest, toTenant } from './parts.js';
import { changed, drawNow, may, onDraw, state } from './state.js';
import { strip } from './strip.js';
import * as decisions from './views/decisions.js';
import * as keys from './views/keys.js';
import * as leases from './views/leases.js';
import * as nodes from './views/nodes.js';
import * as overview from './views/overview.js';
import * as policy from './views/policy.js';
import * as request from './views/request.js';
import * as spend from './views/spend.js';
import * as tenant from './views/tenant.js';
import * as tenants from './views/tenants.js';

const views = { overview, tenants, decisions, leases, nodes, policy, spend, tenant, request, keys };
const all = Object.keys(views).slice(0, 7);
const tabsOf = () => (state.me && !may('view') ? ['keys'] : all); // who only makes keys sees those
const main = document.getElementById('main');
const head = document.getElementById('head');
const wrong = document.getElementById('strip');

// route is the view that the address names, and what it is of.
function route() {
  const [, name = '', rest = ''] = /^#\/([a-z]+)(?:\/(.*))?$/.exec(location.hash) ?? [];
  let of = rest;
  try { of = decodeURIComponent(rest); } catch { /* as it stands */ }
  const [first] = tabsOf();
  return { name: Object.hasOwn(views, name) && (first !== 'keys' || name === 'keys') ? name : first, of };
}

let drawn = null; // the address that was drawn last

function draw() {
  const { name, of } = route();
  const view = views[name];
  const arrived = drawn !== null && drawn !== location.hash;
  drawn = location.hash;
  document.title = `${of || view.title} · llmgov`;
  render(head, frame(name).filter(Boolean));
  render(wrong, strip(name));
  document.documentElement.style.setProperty('--strip', `${wrong.offsetHeight}px`); // that lists leave free
  render(main, [
    tabsOf().includes(name) && h('h1', { class: 'unseen', key: name }, view.title),
    h('div', { class: `view-${name}`, key: `${name}/${of}` }, view.view(of)),
  ].filter(Boolean));
  if (arrived) arrive(view);
}

// arrive begins a view with fresh answers, at its top, and with the keyboard. A filter that somebody
// types into keeps that, because keys come faster than the browser tells of a new address.
function arrive(view) {
  const { name, of } = route();
  for (const one of view.needs) refresh(one, name === 'tenant' && of).catch(() => {}); // else the next poll will
  scrollTo(0, 0);
  if (document.activeElement !== filter()) main.focus({ preventScroll: true });
}

const filter = () => document.getElementById('filter');

function frame(name) {
  const s = state.snapshot;
  const live = state.paused ? 'paused' : state.problem ? 'lost' : state.live;
  return [
    h('a', { class: 'brand', href: '#/overview' }, h('img', { src: 'icon.svg', alt: '', width: '26', height: '26' }), 'llmgov'),
    h('nav', { 'aria-label': 'Views' }, tabsOf().map((t) => h('a', { key: t, href: `#/${t}`, 'aria-current': t === name ? 'page' : null }, views[t].title))),
    h('input', {
      id: 'filter', type: 'search', placeholder: 'Tenant or request  /', 'aria-label': 'Filter by tenant or request', value: state.filter, spellcheck: 'false', autocomplete: 'off',
      oninput: (e) => { state.filter = e.target.value; drawNow(); }, onkeydown: filterKey,
    }),
    state.me && h('span', { class: 'who', title: 'who you are here, and your role' }, [state.me.user, h('small', null, state.me.role)]),
    h('span', { class: 'where', title: s ? `version ${s.version}, policy ${s.policy_hash}` : null }, s && [s.node, h('small', null, s.region)]),
    h('span', { class: `live ${live}`, role: 'status' }, live),
    h('button', { class: 'theme', title: 'Theme: light, dark, or the system’s (t)', 'aria-label': `Theme: ${theme()}`, onclick: nextTheme }, { auto: '◐', light: '☀', dark: '☾' }[theme()]),
    h('button', { class: 'theme', title: 'Keyboard (?)', 'aria-label': 'Keyboard', onclick: () => document.getElementById('help').showModal() }, '?'),
  ];
}

function filterKey(e) {
  if (e.key === 'Escape') {
    state.filter = '';
    e.target.blur();
    drawNow();
  }
  if (e.key !== 'Enter') return;
  const wanted = state.filter.trim();
  const hash = state.tenants.has(wanted) ? toTenant(wanted) : isRequest(wanted) ? toRequest(wanted) : route().name === 'overview' || state.snapshot?.tenants > state.tenants.size ? '#/tenants' : '';
  if (!hash) return;
  if (hash !== '#/tenants') state.filter = '';
  e.target.blur();
  location.hash = hash;
}

const isRequest = (text) => text.startsWith('req_') || state.events.some((e) => e.request === text);

// The theme is the system's until one is chosen, and kept in this browser.
const themes = ['auto', 'light', 'dark'];
const theme = () => document.documentElement.dataset.theme ?? 'auto';

function nextTheme() {
  const next = themes[(themes.indexOf(theme()) + 1) % themes.length];
  document.documentElement.dataset.theme = next;
  localStorage.setItem('llmgov-theme', next);
  drawNow();
}

function onKey(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
  if (e.target.matches('input,select,textarea')) return;
  const keys = {
    '/': () => filter().focus(),
    '?': () => document.getElementById('help').showModal(),
    t: nextTheme,
    p: () => { state.paused = !state.paused; drawNow(); },
    j: () => step(1), k: () => step(-1),
    Escape: () => { if (['tenant', 'request'].includes(route().name)) history.back(); },
  };
  const tab = tabsOf()[Number(e.key) - 1];
  if (!keys[e.key] && !tab) return;
  e.preventDefault();
  if (tab) location.hash = `#/${tab}`;
  else keys[e.key]();
}

// step goes to the link of the next row, or the one before.
function step(by) {
  const links = [...main.querySelectorAll('td.name a, .shares li a, .teams a')];
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
}

document.documentElement.dataset.theme = localStorage.getItem('llmgov-theme') ?? 'auto';
onDraw(draw);
drawNow();
addEventListener('keydown', onKey);
addEventListener('hashchange', drawNow);
addEventListener('resize', changed);
document.querySelector('.skip').onclick = (e) => {
  e.preventDefault(); // the address is the view's
  main.focus();
};
document.addEventListener('visibilitychange', changed);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
poll(() => ({ names: views[route().name].needs, tenant: route().name === 'tenant' && route().of }));
follow();
