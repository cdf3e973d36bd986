"use strict";
(() => {
  const { data, style, axes, percent, secs, percentLabel, secondsLabel, readout, draw, stacked, curves, high, legend, show } = charts;
  const hasOracle = data.lines.some((l) => l.entitled.some((v) => v !== null));
  const returns = charts.instants(data.returns);
  let percentile = "wait_p99";

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

  if (!hasOracle) {
    document.getElementById("entitled-box").remove();
    document.querySelector(".pair").classList.add("alone");
  }
  legend(data.lines);
  const again = show(() => {
    const top = Math.max(1.05, high(data.lines, "received") * 1.02, hasOracle ? high(data.lines, "entitled") * 1.02 : 0);
    stacked("received", data.lines, "received", top, percentLabel, percent, [returns]);
    if (hasOracle) stacked("entitled", data.lines, "entitled", top, percentLabel, percent, [returns]);
    limits();
    curves("waits", data.lines, percentile, secondsLabel, secs, [returns]);
  });
  for (const id of ["p50", "p99"]) {
    document.getElementById(id).addEventListener("click", () => {
      percentile = "wait_" + id;
      for (const b of ["p50", "p99"]) document.getElementById(b).classList.toggle("on", b === id);
      again();
    });
  }
})();
