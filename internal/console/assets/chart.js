// A pool's last minutes: what was used of its minute, in the colours of who used most, and
// the limit over it.

import { short } from './format.js';
import { colourOf, minutes, state } from './state.js';

const shown = 5; // tenants with a colour of their own

// tops are the tenants with colours: those that had most of late.
export function tops(pool) {
  return [...pool.fairness.tenants].filter((t) => t.received_ratio > 0)
    .sort((a, b) => b.received_ratio - a.received_ratio).slice(0, shown).map((t) => t.name);
}

// chartInto draws into an element, at each drawing with new data.
export function chartInto(pool) {
  return (el) => {
    const names = tops(pool).sort();
    const key = [names.join('\n'), document.documentElement.dataset.theme, matchMedia('(prefers-color-scheme: dark)').matches].join('|');
    const data = stacked(state.series.get(pool.name) ?? [], names);
    if (el.chart && el.chartKey !== key) {
      el.chart.destroy();
      el.chart = null;
    }
    if (!el.chart) {
      el.chartKey = key;
      el.chart = new window.uPlot(options(el, names), data, el);
      watchSize(el);
    } else {
      el.chart.setData(data);
    }
  };
}

function watchSize(el) {
  if (el.watched) return;
  el.watched = new ResizeObserver(() => el.chart?.setSize(size(el)));
  el.watched.observe(el);
}

const size = (el) => ({ width: el.clientWidth, height: el.clientHeight });

// stacked is uPlot's data: times, what was used, for each name the sum up to it, the
// highest first, so that each is painted over by the next, and the limit. What was used
// is divided as the tenants received.
function stacked(list, names) {
  const column = (of) => list.map(of);
  const sums = names.map(() => []);
  for (const s of list) {
    let all = 0;
    for (const part of s.parts.values()) all += part;
    let sum = 0;
    names.forEach((name, i) => {
      sum += all > 0 ? ((s.parts.get(name) ?? 0) / all) * s.used : 0;
      sums[i].push(sum);
    });
  }
  return [column((s) => s.at), column((s) => s.used), ...sums.reverse(), column((s) => s.limit)];
}

function options(el, names) {
  const soft = colour(el, 'var(--soft)');
  const grid = colour(el, 'var(--grid)');
  const fills = [...names].reverse().map((name) => colour(el, colourOf(name)));
  return {
    ...size(el),
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { range: (_, min, max) => [Math.max(max - minutes * 60, Math.min(min, max - 60)), max] },
      y: { range: (_, min, max) => [0, Math.max(1, max) * 1.06] },
    },
    axes: [
      { stroke: soft, grid: { show: false }, ticks: { show: false }, size: 26, font: '11px system-ui', space: 80, values: (_, at) => at.map(hour) },
      { stroke: soft, grid: { stroke: grid, width: 1 }, ticks: { show: false }, size: 46, font: '11px system-ui', space: 36, values: (_, at) => at.map(short) },
    ],
    series: [
      {},
      { fill: colour(el, 'var(--others)'), width: 0, points: { show: false } },
      ...fills.map((fill) => ({ fill, stroke: fill, width: 1, points: { show: false } })),
      { stroke: colour(el, 'var(--ink)'), width: 1.25, dash: [5, 4], points: { show: false } },
    ],
  };
}

const hour = (at) => new Date(at * 1000).toTimeString().slice(0, 8);

// colour is what a canvas can paint of a variable of the style sheet.
function colour(el, value) {
  const probe = document.createElement('i');
  probe.style.color = value;
  el.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
