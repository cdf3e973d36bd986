"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = (i) => style("--c" + Math.min(i, 12));
  const hasOracle = data.lines.some((l) => l.entitled.some((v) => v !== null));
  let percentile = "wait_p99";
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
      { ...common, size: 30, values: (u, list) => list.map(clock), space: 70, incrs: [10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400] },
      { ...common, values: (u, list) => list.map(text), size: 58 },
    ];
  };

  // A line where a tenant turned heavy.
  const returns = { hooks: { drawAxes: (u) => {
    u.ctx.save();
    u.ctx.strokeStyle = style("--soft");
    u.ctx.globalAlpha = 0.5;
    u.ctx.setLineDash([3, 4]);
    for (const at of data.returns) {
      const x = Math.round(u.valToPos(at, "x", true)) + 0.5;
      u.ctx.beginPath();
      u.ctx.moveTo(x, u.bbox.top);
      u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
      u.ctx.stroke();
    }
    u.ctx.restore();
  } } };

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

  const stacked = (id, key, top) => {
    const sums = data.times.map(() => 0);
    const layers = data.lines.map((l) => l[key].map((v, k) => (sums[k] += v || 0)));
    // The uppermost layer is drawn first, the lower ones over it.
    const order = layers.map((_, i) => i).reverse();
    draw(id, {
      axes: axes(percentLabel),
      scales: { x: { time: false }, y: { range: [0, top] } },
      series: [{}].concat(order.map((i) => ({ stroke: color(i), fill: color(i), width: 0, points: { show: false } }))),
      plugins: [returns, readout(data.lines.map((l, i) => ({ name: l.name, values: l[key], color: () => color(i) })), percent)],
    }, [data.times].concat(order.map((i) => layers[i])));
  };

  const limits = () => {
    const top = Math.max(1.08, ...data.limits.flatMap((l) => l.used)) * 1.02;
    const hues = ["--accent", "--c1", "--c2"];
    const hue = (i) => style(hues[i]);
    draw("limits", {
      axes: axes(percentLabel),
      scales: { x: { time: false }, y: { range: [0, top] } },
      series: [{}, { stroke: style("--alarm"), width: 1.5, dash: [6, 5], points: { show: false } }]
        .concat(data.limits.map((l, i) => ({ stroke: hue(i), fill: i === 0 ? hue(i) + "22" : undefined, width: 2, points: { show: false } }))),
      plugins: [readout(data.limits.map((l, i) => ({ name: l.name, values: l.used, color: () => hue(i) })), (v) => (v * 100).toFixed(2) + " %")],
    }, [data.times, data.times.map(() => 1)].concat(data.limits.map((l) => l.used)));
  };

  const waits = () => draw("waits", {
    axes: axes(secondsLabel),
    scales: { x: { time: false }, y: { range: (u, lo, hi) => [0, Math.max(hi || 0, 0.1) * 1.05] } },
    series: [{}].concat(data.lines.map((l, i) => ({ stroke: color(i), width: 1.75, points: { show: false } }))),
    plugins: [returns, readout(data.lines.map((l, i) => ({ name: l.name, values: l[percentile], color: () => color(i) })), secs)],
  }, [data.times].concat(data.lines.map((l) => l[percentile])));

  const drawAll = () => {
    plots.forEach((p) => p.plot.destroy());
    plots = [];
    const high = (key) => Math.max(...data.times.map((_, k) => data.lines.reduce((s, l) => s + (l[key][k] || 0), 0)));
    const top = Math.max(1.05, high("received") * 1.02, hasOracle ? high("entitled") * 1.02 : 0);
    stacked("received", "received", top);
    if (hasOracle) stacked("entitled", "entitled", top);
    limits();
    waits();
  };

  if (!hasOracle) {
    document.getElementById("entitled-box").remove();
    document.querySelector(".pair").classList.add("alone");
  }
  data.lines.forEach((l, i) => {
    const item = document.createElement("span"), chip = document.createElement("i");
    chip.style.background = "var(--c" + Math.min(i, 12) + ")";
    item.append(chip, l.name);
    document.getElementById("legend").append(item);
  });
  for (const id of ["p50", "p99"]) {
    document.getElementById(id).addEventListener("click", () => {
      percentile = "wait_" + id;
      for (const b of ["p50", "p99"]) document.getElementById(b).classList.toggle("on", b === id);
      drawAll();
    });
  }
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let timer;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(drawAll, 120); });
})();
