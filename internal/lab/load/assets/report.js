"use strict";
(() => {
  const { data, short, secs, secondsLabel, stacked, curves, high, legend, show } = charts;
  const each = (v) => (v >= 100 ? v.toFixed(0) : v.toFixed(1)) + " /s";
  const eachLabel = (v) => (v >= 10000 ? short(v / 1000, "k") : short(v, ""));
  let percentile = "p99";

  const stack = (key) => stacked(key, data.lines, key, Math.max(high(data.lines, key) * 1.05, 1), eachLabel, each, []);
  legend(data.lines);
  const again = show(() => {
    stack("tokens");
    stack("refused");
    curves("ttft", data.lines, "ttft_" + percentile, secondsLabel, secs, []);
    curves("latency", data.lines, "latency_" + percentile, secondsLabel, secs, []);
  });
  for (const id of ["p50", "p99"]) {
    document.getElementById(id).addEventListener("click", () => {
      percentile = id;
      for (const b of ["p50", "p99"]) document.getElementById(b).classList.toggle("on", b === id);
      again();
    });
  }
})();
