// How figures, times and names read.

const units = [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'k']];

// short is a number in three digits: 594k.
export function short(n) {
  for (const [one, unit] of units) {
    if (Math.abs(n) >= one * 0.9995) {
      const v = n / one;
      return (Math.abs(v) >= 100 ? v.toFixed(0) : v.toFixed(1).replace(/\.0$/, '')) + unit;
    }
  }
  return Number.isInteger(n) ? String(n) : n.toFixed(1);
}

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 2 });
export const full = (n) => whole.format(n);

const cents = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' });
const small = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumSignificantDigits: 2 });
const round = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumFractionDigits: 0 });

export function dollars(n) {
  if (Number.isInteger(n) || Math.abs(n) >= 1000) return round.format(n);
  return (Math.abs(n) < 0.01 ? small : cents).format(n);
}

// amount and exact are a number of a unit (tokens, requests, usd): short, and in all digits.
export const amount = (n, unit) => (unit === 'usd' ? dollars(n) : short(n));
export const exact = (n, unit) => (unit === 'usd' ? dollars(n) : full(n));

export const plural = (n, one, many = `${one}s`) => `${full(n)} ${n === 1 ? one : many}`;

export function percent(ratio) {
  const p = 100 * ratio;
  return (p > 0 && p < 9.95 ? p.toFixed(1) : p.toFixed(0)) + ' %';
}

export function duration(s) {
  if (s < 0) return 'never';
  if (s < 0.0005) return '0 s';
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} days`;
}

export function bytes(n) {
  for (const [one, unit] of [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']]) if (n >= one) return `${(n / one).toFixed(n >= 100 * one ? 0 : 1)} ${unit}`;
  return `${n} B`;
}

const two = (n) => String(n).padStart(2, '0');

export function clock(time) {
  const d = new Date(time);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

export const minute = (time) => clock(time).slice(0, 5);

const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const year = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });
const zoned = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', timeZoneName: 'short' });

// since is a time of day, with the date if that was not today.
export function since(time) {
  const d = new Date(time);
  return d.toDateString() === new Date().toDateString() ? minute(d) : `${day.format(d)} ${minute(d)}`;
}

// moment is a time with its date and zone, and date is a date.
export const moment = (time) => zoned.format(new Date(time)).replace(',', '');
export const date = (time) => year.format(new Date(time));

// zone is the time zone of all times that are shown: the browser's.
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

// middle cuts a text to so many characters, in its middle: names differ at both ends.
export function middle(text, most) {
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) * 0.45);
  return `${text.slice(0, most - 1 - end)}…${text.slice(text.length - end)}`;
}
