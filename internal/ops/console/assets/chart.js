// Charts over time: a pool's use by tenant, and a tenant's share. Both have the times in which
// calls failed marked, and say under the pointer what was when.

import { coloursOf } from './colours.js';
import { h } from './dom.js';
import { clock, minute, percent, short, zone } from './format.js';
import { points } from './series.js';
import { drawNow, state } from './state.js';

const ranges = [[5, '5 min'], [15, '15 min'], [60, '1 h']];

// rangeChoice chooses how much of the past all charts show.
export const rangeChoice = () => h('div', { class: 'ranges', role: 'group', 'aria-label': 'Time range of charts' }, ranges.map(([minutes, label]) => h('button', {
  key: label, 'aria-pressed': String(state.minutes === minutes), onclick: () => { state.minutes = minutes; localStorage.setItem('llmgov-minutes', minutes); drawNow(); },
}, label)));

// poolChart stacks what each of the named tenants used, and all others, up to the limit.
export function poolChart(pool, names) {
  const sorted = [...names].sort();
  const colours = coloursOf(sorted);
  const unit = { tokens: 'tokens a minute', requests: 'requests a minute', input_tokens: 'input tokens a minute', output_tokens: 'output tokens a minute' }[pool.limits[0]?.axis] ?? 'concurrent calls';
  const { points: list, ...times } = points(pool.name);
  return figure(`Use of pool ${pool.name}`, `Used, in ${unit}`, times, (el) => {
    const stack = sorted.map(() => []);
    for (const p of list) {
      let sum = 0;
      sorted.forEach((name, i) => {
        sum += p.received > 0 && p.used !== null ? ((p.parts.get(name)?.[0] ?? 0) / p.received) * p.used : 0;
        stack[i].push(p.used === null ? null : sum);
      });
    }
    const limit = list.map((p) => p.limit);
    const lines = [
      { fill: 'var(--others)', data: list.map((p) => p.used) },
      ...sorted.map((name, i) => ({ fill: colours.get(name), data: stack[i] })).reverse(),
      { stroke: 'var(--ink)', dash: [5, 4], data: limit },
    ];
    draw(el, { times, at: list.map((p) => p.at), lines, say: short, tip: (i) => poolTip(list[i], sorted, colours) });
  });
}

// poolTip lists who used most at one moment.
function poolTip(p, names, colours) {
  if (!p || p.used === null) return [];
  const of = (name) => (p.received > 0 ? ((p.parts.get(name)?.[0] ?? 0) / p.received) * p.used : 0);
  const rows = names.map((name) => [name, of(name), colours.get(name)]).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  const rest = p.used - rows.reduce((sum, [, n]) => sum + n, 0);
  if (rest > p.used / 1000) rows.push(['others', rest, 'var(--others)']);
  return [['used', `${short(p.used)}${p.limit ? ` of ${short(p.limit)}` : ''}`, ''], ...rows.map(([name, n, colour]) => [name, short(n), colour])];
}

// tenantChart is what a tenant received of a pool, and was entitled to.
export function tenantChart(pool, tenant) {
  const colour = coloursOf([tenant]).get(tenant);
  const { points: list, ...times } = points(pool, tenant);
  return figure(`Share of ${tenant} in pool ${pool}`, `Share of pool ${pool}`, times, (el) => {
    const part = (i) => list.map((p) => (p.used === null ? null : p.parts.get(tenant)?.[i] ?? 0));
    const [received, entitled] = [part(0), part(1)];
    draw(el, {
      times, at: list.map((p) => p.at), say: percent,
      lines: [{ fill: colour, data: received }, { stroke: 'var(--ink)', dash: [5, 4], data: entitled }],
      tip: (i) => (received[i] === null ? [] : [['received', percent(received[i]), colour], ['entitled', percent(entitled[i]), 'var(--ink)']]),
    });
  });
}

const marked = (list, times) => list.some(([, to]) => to >= times.from);

const figure = (label, caption, times, ref) => h('figure', null,
  h('figcaption', null, h('span', null, caption),
    marked(times.failures, times) && h('span', null, h('i', { class: 'key failed' }), 'failed'),
    marked(times.refusals, times) && h('span', null, h('i', { class: 'key refused' }), 'refused'),
    h('span', { class: 'zone' }, `times in ${zone()}`)),
  h('div', { class: 'chart', role: 'img', 'aria-label': `${label} in the last ${state.minutes} minutes`, opaque: true, ref }));

// draw shows lines in an element. What does not depend on data is made anew only when it changes.
function draw(el, chart) {
  const key = JSON.stringify([chart.lines.map((l) => [l.fill, l.stroke]), document.documentElement.dataset.theme, matchMedia('(prefers-color-scheme: dark)').matches]);
  const data = [chart.at, ...chart.lines.map((l) => l.data)];
  el.now = chart;
  if (el.plot && el.plotKey !== key) {
    el.plot.destroy();
    el.plot = null;
  }
  if (el.plot) {
    el.plot.setData(data);
    return;
  }
  el.plotKey = key;
  el.tip ??= el.appendChild(Object.assign(document.createElement('div'), { className: 'tip', hidden: true }));
  el.plot = new window.uPlot(options(el, chart), data, el);
  if (!el.watched) {
    el.watched = new ResizeObserver(() => el.plot?.setSize(size(el)));
    el.watched.observe(el);
  }
}

const size = (el) => ({ width: el.clientWidth, height: el.clientHeight });

function options(el, chart) {
  const soft = paint(el, 'var(--soft)');
  const failed = paint(el, 'var(--red)');
  const refused = paint(el, 'var(--amber)');
  const font = '11px system-ui';
  return {
    ...size(el),
    padding: [8, 22, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { range: () => [Math.max(el.now.times.from, Math.min(el.now.at[0] ?? 0, el.now.times.to - 120)), el.now.times.to] },
      y: { range: (_, min, max) => [0, Math.max(chart.say === percent ? 0.01 : 1, max ?? 0) * 1.06] },
    },
    axes: [
      { stroke: soft, grid: { show: false }, ticks: { show: false }, size: 26, font, space: 70, values: (_, at) => at.map((t) => (el.now.times.to - (at[0] ?? 0) > 600 ? minute : clock)(t * 1000)) },
      { stroke: soft, grid: { stroke: paint(el, 'var(--grid)'), width: 1 }, ticks: { show: false }, size: 50, font, space: 36, values: (_, at) => at.map(chart.say === percent ? tick : chart.say) },
    ],
    series: [{}, ...chart.lines.map((l) => ({
      ...(l.fill && { fill: paint(el, l.fill) }), ...(l.stroke ? { stroke: paint(el, l.stroke), width: 1.25, dash: l.dash } : { stroke: paint(el, l.fill), width: 1 }),
      points: { show: false }, spanGaps: false,
    }))],
    hooks: {
      draw: [(u) => {
        mark(u, el.now.times.failures, failed, 4);
        mark(u, el.now.times.refusals, refused, 2);
      }],
      setCursor: [(u) => point(el, u)],
    },
  };
}

// tick is a part of the whole without digits that say nothing.
const tick = (ratio) => `${Number((100 * ratio).toFixed(2))} %`;

// mark paints the times of a list as a band along the bottom.
function mark(u, list, colour, thick) {
  const { left, top, width, height } = u.bbox;
  const px = devicePixelRatio;
  u.ctx.save();
  u.ctx.fillStyle = colour;
  for (const [from, to] of list) {
    const x = Math.max(left, u.valToPos(from, 'x', true));
    const end = Math.min(left + width, u.valToPos(to, 'x', true));
    if (end > x) u.ctx.fillRect(x, top + height - thick * px, end - x, thick * px);
  }
  u.ctx.restore();
}

// point shows what was at the place of the pointer.
function point(el, u) {
  const at = u.cursor.idx;
  const rows = at === null || at === undefined || u.cursor.left < 0 ? [] : el.now.tip(at);
  el.tip.hidden = rows.length === 0;
  if (rows.length === 0) return;
  const line = (name, value, colour) => {
    const row = document.createElement('div');
    const key = row.appendChild(document.createElement('i'));
    if (colour) key.style.background = colour;
    row.append(Object.assign(document.createElement('span'), { textContent: name }), Object.assign(document.createElement('b'), { textContent: value }));
    return row;
  };
  el.tip.replaceChildren(line(clock(el.now.at[at] * 1000), '', ''), ...rows.slice(0, 10).map((r) => line(...r)));
  const right = u.cursor.left > el.clientWidth / 2;
  el.tip.style.left = right ? '' : `${u.cursor.left + 66}px`;
  el.tip.style.right = right ? `${el.clientWidth - u.cursor.left - 42}px` : '';
}

// paint is what a canvas can paint of a variable of the style sheet.
function paint(el, value) {
  const probe = document.createElement('i');
  probe.style.color = value;
  el.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
