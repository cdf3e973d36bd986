// How figures read.

const units = [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

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

const two = (n) => String(n).padStart(2, '0');

export function clock(time) {
  const d = new Date(time);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

export const date = (time) => `${new Date(time).toLocaleDateString('en-CA')} ${clock(time)}`;

// money reads as dollars where a budget's unit is money.
export const amount = (n, unit) => (unit === 'usd' ? `$${n.toFixed(2)}` : short(n));
