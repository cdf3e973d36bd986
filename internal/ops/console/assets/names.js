// Names that are longer than their place are cut in the middle: teams and environments differ
// at the end. The whole name is in the title.

import { h } from './dom.js';
import { middle } from './format.js';

const pen = document.createElement('canvas').getContext('2d');
const widths = new Map(); // of texts, by font

function widthOf(text, font) {
  const key = `${font}\n${text}`;
  if (!widths.has(key)) {
    if (widths.size > 20000) widths.clear();
    pen.font = font;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}

// fitted is the text, or as much of both its ends as there is room for.
export function fitted(text, room, font) {
  if (widthOf(text, font) <= room) return text;
  let most = Math.max(3, Math.floor((text.length * room) / widthOf(text, font)));
  while (most > 3 && widthOf(middle(text, most), font) > room) most--;
  return middle(text, most);
}

// name is a text that fits into its place, whose width must not depend on it.
export const name = (text) => h('span', { class: 'name-text', opaque: true, ref: (el) => fit(el, text) });

function fit(el, text) {
  const room = el.clientWidth;
  if (el.whole === text && el.room === room && el.textContent === el.shown) return;
  const style = getComputedStyle(el);
  el.whole = text;
  el.room = room;
  el.shown = room > 0 ? fitted(text, room, `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`) : text;
  el.textContent = el.shown;
}
