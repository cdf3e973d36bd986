// A tenant's colour is a hash of its name, so that it is the same in all charts and each time
// the page opens. Tenants whose hashes collide are moved on in the order of their names; so as
// long as there are no more tenants than colours, no two share one anywhere.

const base = 12; // colours that are far apart: --c0 … --c11 of frame.css
export const colours = 2 * base; // with a second shade of each

let places = new Map();

// assign gives each name of a policy its colour.
export function assign(names) {
  places = spread([...new Set(names)].sort(), names.length > base ? colours : base, new Map());
}

// coloursOf are the colours of the names in one chart, by name. Where there are more tenants
// than colours, two that share one are told apart within the chart.
export function coloursOf(names) {
  const sorted = [...names].sort();
  const size = names.some((n) => (places.get(n) ?? base) >= base) || names.length > base ? colours : base;
  return new Map([...spread(sorted, size, places)].map(([name, place]) => [name, `var(--c${place})`]));
}

// spread gives each name the place that it prefers, or the next one that is free.
function spread(names, size, preferred) {
  const out = new Map();
  const taken = new Set();
  const settle = (name, place) => {
    while (taken.size < size && taken.has(place)) place = (place + 1) % size;
    taken.add(place);
    out.set(name, place);
  };
  for (const name of names) settle(name, preferred.get(name) ?? hash(name) % size);
  return out;
}

// hash is FNV-1a.
function hash(text) {
  let sum = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 0x01000193);
  return (sum ^ (sum >>> 15)) >>> 0;
}
