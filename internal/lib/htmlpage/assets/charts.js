"use strict";
// What the charts of all reports have in common. A report's own script says which
// charts there are, and hands the function that draws them to charts.show.
const charts = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = (i) => style("--c" + Math.min(i, 12));
  let plots = [];

  const clock = (s) => Math.floor(s / 60) + ":" + String(Math.floor(s % 60)).padStart(2, "0");
  const percent = (v) => (v * 100).toFixed(v < 0.1 ? 1 : 0) + " %";
  const secs = (v) => (v >= 10 ? v.toFixed(1) : v.toFixed(2)) + " s";
  // Labels of axes have no more digits than they need.
  const short = (v, unit) => String(parseFloat(v.toPrecision(4))) + unit;
  const percentLabel = (v) => short(v * 100, " %");
  const secondsLabel = (v) => short(v, " s");

  const axes = (text) => {
    const common = { stroke: style("--soft"), grid: { stroke: style("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return [
      { ...common, size: 30, values: (u, list) => list.map(clock), space: 70, incrs: [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400] },
      { ...common, values: (u, list) => list.map(text), size: 58 },
    ];
  };

  // A line at each of some instants.
  const instants = (list) => ({ hooks: { drawAxes: (u) => {
    u.ctx.save();
    u.ctx.strokeStyle = style("--soft");
    u.ctx.globalAlpha = 0.5;
    u.ctx.setLineDash([3, 4]);
    for (const at of list) {
      const x = Math.round(u.valToPos(at, "x", true)) + 0.5;
      u.ctx.beginPath();
      u.ctx.moveTo(x, u.bbox.top);
      u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
      u.ctx.stroke();
    }
    u.ctx.restore();
  } } });

  // What the cursor points at, below the chart's upper edge.
  const readout = (rows, text) => {
    const box = document.createElement("div");
    box.className = "readout";
    Object.assign(box.style, { position: "absolute", top: "4px", pointerEvents: "none", padding: "6px 9px", fontSize: "12px", lineHeight: "1.45",
      borderRadius: "7px", zIndex: 9, display: "none", fontVariantNumeric: "tabular-nums", whiteSpace: "nowrap" });
    return { hooks: {
      init: (u) => u.over.appendChild(box),
      setCursor: (u) => {
        const k = u.cursor.idx;
        if (k == null || u.cursor.left < 0) { box.style.display = "none"; return; }
        const list = rows.filter((r) => r.values[k] !== null && r.values[k] > 0);
        box.style.background = style("--panel");
        box.style.border = "1px solid " + style("--line");
        box.style.display = "block";
        box.replaceChildren();
        const head = document.createElement("div");
        head.textContent = clock(data.times[k]);
        head.style.color = style("--soft");
        box.append(head);
        for (const r of list.slice(0, 14)) {
          const line = document.createElement("div"), chip = document.createElement("i");
          chip.style.background = r.color();
          line.append(chip, r.name + "  " + text(r.values[k]));
          box.append(line);
        }
        const right = u.cursor.left < u.over.clientWidth / 2;
        box.style.left = right ? u.cursor.left + 14 + "px" : "";
        box.style.right = right ? "" : u.over.clientWidth - u.cursor.left + 14 + "px";
      },
    } };
  };

  const draw = (id, options, values) => {
    const at = document.getElementById(id);
    at.replaceChildren();
    const plot = new uPlot({
      width: at.clientWidth, height: 240, legend: { show: false }, padding: [12, 8, 0, 0],
      cursor: { sync: { key: "t" }, points: { show: false }, drag: { x: true, y: false } },
      ...options,
    }, values, at);
    plots.push({ at, plot });
  };

  // Layers upon each other, one for each line.
  const stacked = (id, lines, key, top, labels, text, more) => {
    const sums = data.times.map(() => 0);
    const layers = lines.map((l) => l[key].map((v, k) => (sums[k] += v || 0)));
    // The uppermost layer is drawn first, the lower ones over it.
    const order = layers.map((_, i) => i).reverse();
    draw(id, {
      axes: axes(labels),
      scales: { x: { time: false }, y: { range: [0, top] } },
      series: [{}].concat(order.map((i) => ({ stroke: color(i), fill: color(i), width: 0, points: { show: false } }))),
      plugins: [...more, readout(lines.map((l, i) => ({ name: l.name, values: l[key], color: () => color(i) })), text)],
    }, [data.times].concat(order.map((i) => layers[i])));
  };

  // A line for each.
  const curves = (id, lines, key, labels, text, more) => draw(id, {
    axes: axes(labels),
    scales: { x: { time: false }, y: { range: (u, lo, hi) => [0, Math.max(hi || 0, 0.1) * 1.05] } },
    series: [{}].concat(lines.map((l, i) => ({ stroke: color(i), width: 1.75, points: { show: false } }))),
    plugins: [...more, readout(lines.map((l, i) => ({ name: l.name, values: l[key], color: () => color(i) })), text)],
  }, [data.times].concat(lines.map((l) => l[key])));

  // The highest that the layers of a stack come to.
  const high = (lines, key) => Math.max(...data.times.map((_, k) => lines.reduce((s, l) => s + (l[key][k] || 0), 0)));

  const legend = (lines) => lines.forEach((l, i) => {
    const item = document.createElement("span"), chip = document.createElement("i");
    chip.style.background = "var(--c" + Math.min(i, 12) + ")";
    item.append(chip, l.name);
    document.getElementById("legend").append(item);
  });

  // Draws now, and again when colours or the width change. The function that it
  // returns draws again at once.
  const show = (drawAll) => {
    const again = () => {
      plots.forEach((p) => p.plot.destroy());
      plots = [];
      drawAll();
    };
    again();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    let timer;
    addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(again, 120); });
    return again;
  };

  return { data, style, axes, percent, secs, short, percentLabel, secondsLabel, instants, readout, draw, stacked, curves, high, legend, show };
})();
