// Draws the charts of a report with uPlot, and places spans and marks on the tracks of its timelines. All share one axis of time.
const data = JSON.parse(document.getElementById('data').textContent);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const inFull = new Intl.NumberFormat('en', {maximumFractionDigits: 3});
const inShort = new Intl.NumberFormat('en', {maximumFractionDigits: 2, notation: 'compact'});
const say = (value, unit, numbers) => value == null ? '-'
  : unit === '%' ? inFull.format(Math.round(value * 1000) / 10) + ' %'
  : unit === '$' ? '$' + numbers.format(value) : numbers.format(value) + (unit ? ' ' + unit : '');
const plots = [];

function tooltip(plot, spec) {
  const box = document.createElement('div');
  box.className = 'tip';
  plot.over.append(box);
  return () => {
    const index = plot.cursor.idxs[1], left = plot.cursor.left;
    box.style.display = index == null || left < 0 || !plot.over.matches(':hover') ? 'none' : 'block';
    if (box.style.display === 'none') return;
    const line = (text, mark) => {
      const row = document.createElement('div'), key = document.createElement('i');
      if (mark) { key.style.background = mark; row.append(key); }
      row.append(text);
      return row;
    };
    const lines = [line(inFull.format(plot.posToVal(left, 'x')) + ' ' + spec.across)];
    spec.series.forEach(series => {
      if (!spec.stacked || series.values[index]) lines.push(line(series.name + ': ' + say(series.values[index], spec.unit, inFull), series.colour));
    });
    box.replaceChildren(...lines);
    box.style.left = left > plot.over.clientWidth / 2 ? '' : left + 12 + 'px';
    box.style.right = left > plot.over.clientWidth / 2 ? plot.over.clientWidth - left + 12 + 'px' : '';
  };
}

function draw(holder, spec) {
  const steps = uPlot.paths.stepped({align: 1});
  let below = null;
  const drawn = spec.series.map(series => {
    const values = spec.stacked && below ? series.values.map((value, place) => value + below[place]) : series.values;
    below = values;
    return {...series, values};
  });
  if (spec.stacked) drawn.reverse();  // the highest first, so that each covers the ones behind
  let update = () => {};
  const axis = {stroke: () => colour('--quiet'), grid: {stroke: () => colour('--grid'), width: 1},
    ticks: {stroke: () => colour('--line'), width: 1}, font: '12px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif'};
  const plot = new uPlot({
    width: holder.clientWidth, height: 240, padding: [10, 14, 0, 0], legend: {show: false},
    // The value at the cursor is that of the last point before it.
    cursor: {drag: {x: true, y: false}, points: {size: 6}, dataIdx: (own, _, closest, at) => Math.max(0, closest - (own.data[0][closest] > at)), ...(spec.timed ? {sync: {key: 'time'}} : {})},
    scales: {x: {time: false, ...(spec.timed ? {} : {distr: 3})}, y: {range: (_, low, high) => [0, spec.most ?? ((high || 1) * 1.06)]}},
    axes: [{...axis, size: 34, labelSize: 18, label: spec.across, labelGap: 0, space: 60, values: (_, splits) => splits.map(at => at == null ? '' : inShort.format(at))},
      {...axis, size: 58, values: (_, splits) => splits.map(at => say(at, spec.unit, inShort))}],
    series: [{}, ...drawn.map(series => ({label: series.name, stroke: series.colour, width: spec.stacked ? 0.5 : 1.6,
      dash: series.dashed ? [4, 4] : undefined, paths: series.linear ? undefined : steps, points: {show: false},
      fill: spec.stacked ? series.colour : series.filled ? series.colour + '33' : undefined}))],
    hooks: {setCursor: [() => update()], setScale: [(own, key) => { if (key === 'x' && spec.timed) follow(own); }]},
  }, [spec.x, ...drawn.map(series => series.values)], holder);
  update = tooltip(plot, spec);
  new ResizeObserver(() => plot.setSize({width: holder.clientWidth, height: 240})).observe(holder);
  plots.push(plot);
}

// The other charts and the tracks show the same part of the run.
let following = false;
function follow(own) {
  const {min, max} = own.scales.x;
  place(min, max);
  if (following) return;
  following = true;
  plots.forEach(plot => {
    if (plot !== own && plot.cursor.sync?.key === 'time' && (plot.scales.x.min !== min || plot.scales.x.max !== max)) plot.setScale('x', {min, max});
  });
  following = false;
}

let wanted = null;
function place(low, high) {
  if (!(high > low)) return;
  if (wanted === null) requestAnimationFrame(() => {
    const [from, until] = wanted;
    wanted = null;
    document.querySelectorAll('.track i').forEach(item => {
      const begins = +item.dataset.a, ends = +(item.dataset.b ?? begins), share = at => (at - from) / (until - from) * 100;
      item.style.left = Math.max(0, share(begins)) + '%';
      item.style.display = begins > until || ends < from ? 'none' : '';
      if (item.dataset.b) item.style.width = Math.min(100, share(ends)) - Math.max(0, share(begins)) + '%';
    });
  });
  wanted = [low, high];
}

document.querySelectorAll('.chart').forEach(holder => draw(holder, data.charts[holder.dataset.chart]));
place(data.from, data.until);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => plots.forEach(plot => plot.redraw()));
