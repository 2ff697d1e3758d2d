"use strict";
// Draws the chart, and holds the page still while someone reads, selects or types. Without it every view works, too.
(() => {
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chart = null, told = null;

  function draw(box) {
    const { samples, warnings } = told;
    if (!samples.at || samples.at.length < 2) return;
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const line = (label, name, scale) => ({ label, scale, stroke: colour(name), width: 2, points: { show: false } });
    const has = samples.cost.some(cost => cost > 0);
    const options = {
      width: box.clientWidth - 16, height: 200, cursor: { y: false },
      scales: { x: { time: true }, n: { range: (_, low, high) => [0, Math.max(5, high * 1.1)] }, usd: { range: (_, low, high) => [0, Math.max(0.01, high * 1.1)] } },
      axes: [{ ...axis, space: 70, values: (_, all) => all.map(at => new Date(at * 1000).toISOString().slice(11, 16)) }, { ...axis, scale: "n", size: 55 }, ...(has ? [{ ...axis, scale: "usd", side: 1, size: 60, grid: { show: false }, values: (_, all) => all.map(v => "$" + v) }] : [])],
      series: [{ value: (_, at) => at == null ? "–" : new Date(at * 1000).toISOString().slice(5, 16).replace("T", " ") + " UTC" }, line("nodes", "--chart-nodes", "n"), line("pending pods", "--chart-pending", "n"), ...(has ? [line("USD an hour", "--chart-cost", "usd")] : [])],
      hooks: { draw: [u => {
        u.ctx.fillStyle = colour("--bad");
        for (const [at] of warnings) {
          const x = u.valToPos(at, "x", true);
          if (x >= u.bbox.left) u.ctx.fillRect(x - 1, u.bbox.top + u.bbox.height - 8, 3, 8);
        }
      }] },
    };
    if (chart) chart.destroy();
    chart = new uPlot(options, [samples.at, samples.nodes, samples.pending, ...(has ? [samples.cost] : [])], box);
  }

  async function update() {
    const box = document.getElementById("chart");
    if (!box || document.hidden) return;
    try {
      told = await (await fetch("/series.json")).json();
      draw(box);
    } catch { /* the next try is soon */ }
  }

  function isBusy() {
    const here = document.activeElement;
    return document.hidden || (here && here.closest && here.closest("input, button")) || !getSelection().isCollapsed;
  }

  document.addEventListener("htmx:before:request", event => { if (isBusy()) event.preventDefault(); });
  document.addEventListener("htmx:error", () => document.getElementById("view").classList.add("stale"));
  document.addEventListener("keydown", event => {
    const field = document.querySelector("input[type=search]");
    if (event.key === "/" && field && document.activeElement !== field) { field.focus(); event.preventDefault(); }
  });
  dark.addEventListener("change", () => { const box = document.getElementById("chart"); if (box && told) draw(box); });
  addEventListener("resize", () => { const box = document.getElementById("chart"); if (box && chart) chart.setSize({ width: box.clientWidth - 16, height: 200 }); });
  update();
  setInterval(update, 15000);
})();
