// Long tables: only the rows in sight are there, above and below is room.

import { h } from './dom.js';
import { changed } from './state.js';

const height = 38; // of a row, as in parts.css
const spare = 8; // rows above and below what is in sight

// places are where tables are scrolled to, by their names.
const places = new Map();

// table shows rows by columns [{name, of, kind, wide}]: of is a cell's content, kind a class,
// and a wide one is left out on phones. keyOf names a row; open is where it leads.
export function table({ name, columns, rows, keyOf, open, empty, rowClass, onsort, sorted }) {
  const place = places.get(name) ?? { top: 0, seen: 600 };
  places.set(name, place);
  const first = Math.max(0, Math.min(Math.floor(place.top / height) - spare, rows.length - 1));
  const last = Math.min(rows.length, Math.ceil((place.top + place.seen) / height) + spare);
  if (rows.length === 0) return h('p', { class: 'empty' }, empty);
  return h('div', {
    class: 'scroll', role: 'region', 'aria-label': name, tabindex: '0',
    onscroll: (e) => {
      if (Math.abs(place.top - e.target.scrollTop) < height) return;
      place.top = e.target.scrollTop;
      changed();
    },
    ref: (el) => {
      place.seen = el.clientHeight || 600;
      place.top = el.scrollTop;
    },
  }, h('table', { 'aria-rowcount': rows.length + 1 },
    h('thead', null, h('tr', null, columns.map((c) => head(c, onsort, sorted)))),
    h('tbody', null,
      room(first),
      rows.slice(first, last).map((row, i) => h('tr', {
        key: keyOf(row), 'aria-rowindex': first + i + 2, class: rowClass?.(row),
        onclick: open && ((e) => { if (!e.target.closest('a,button') && !String(getSelection())) location.hash = open(row); }),
      }, columns.map((c) => h('td', { class: classes(c) }, c.of(row))))),
      room(rows.length - last),
    )));
}

function classes(column) {
  return [column.kind, column.wide && 'wide'].filter(Boolean).join(' ') || null;
}

function head(column, onsort, sorted) {
  if (!onsort || !column.sort) return h('th', { class: classes(column), scope: 'col' }, column.name);
  const on = sorted.by === column.sort;
  return h('th', { class: classes(column), scope: 'col', 'aria-sort': on ? (sorted.down ? 'descending' : 'ascending') : null },
    h('button', { class: 'sort', onclick: () => onsort(column.sort) }, column.name, on && (sorted.down ? ' ↓' : ' ↑')));
}

const room = (rows) => (rows > 0 ? h('tr', { class: 'room', 'aria-hidden': 'true', style: { height: `${rows * height}px` } }) : null);
