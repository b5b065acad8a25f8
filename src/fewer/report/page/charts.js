// Axes, lines and dots as SVG.

// Round values that cover a range, about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((one) => one >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

// Powers of ten with halves between, for a logarithmic axis.
function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
    for (const m of [1, 2, 5]) if (m * 10 ** power >= low && m * 10 ** power <= high) found.push(m * 10 ** power);
  }
  return found;
}

// Labels of an axis's ticks, all with the same number of decimals.
function tickLabels(values) {
  if (values.some((value) => Math.abs(value) >= 1000)) return values.map((value) => (value === 0 ? "0" : `${Number((value / 1000).toPrecision(3))}k`));
  const digits = Math.max(0, ...values.map((value) => (String(Number(value.toPrecision(6))).split(".")[1] || "").length));
  return values.map((value) => value.toFixed(digits));
}

// A frame with axes: gives the svg, a layer to draw into, and the maps from values to places.
function frame({ width, height, x, y, xLabel, yLabel, label, margin = { left: 46, right: 14, top: 14, bottom: 40 } }) {
  const map = (axis, from, to) => {
    const f = axis.log ? Math.log : (value) => value;
    const low = f(axis.low);
    const span = f(axis.high) - low || 1;
    return (value) => from + ((f(value) - low) / span) * (to - from);
  };
  const px = map(x, margin.left, width - margin.right);
  const py = map(y, height - margin.bottom, margin.top);
  const axes = svgEl("g", { class: "axes" });
  const xNames = tickLabels(x.ticks);
  const yNames = tickLabels(y.ticks);
  x.ticks.forEach((tick, i) => {
    axes.append(svgEl("line", { x1: px(tick), x2: px(tick), y1: height - margin.bottom, y2: height - margin.bottom + 4 }));
    axes.append(svgEl("text", { x: px(tick), y: height - margin.bottom + 18, "text-anchor": "middle" }, xNames[i]));
  });
  y.ticks.forEach((tick, i) => {
    axes.append(svgEl("line", { class: "rule", x1: margin.left, x2: width - margin.right, y1: py(tick), y2: py(tick) }));
    axes.append(svgEl("text", { x: margin.left - 10, y: py(tick) + 4, "text-anchor": "end" }, yNames[i]));
  });
  axes.append(svgEl("line", { x1: margin.left, x2: width - margin.right, y1: height - margin.bottom, y2: height - margin.bottom }));
  axes.append(svgEl("text", { class: "axis-label", x: (margin.left + width - margin.right) / 2, y: height - 5, "text-anchor": "middle" }, xLabel));
  if (yLabel) axes.append(svgEl("text", { class: "axis-label", x: 2, y: 10 }, yLabel));
  const layer = svgEl("g", {});
  const svg = svgEl("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "chart" }, axes, layer);
  return { svg, layer, px, py };
}

function path(points, px, py) {
  let text = "";
  let pen = "M";
  for (const [x, y] of points) {
    if (y === null || !Number.isFinite(y)) {
      pen = "M";
      continue;
    }
    text += `${pen}${px(x).toFixed(1)} ${py(y).toFixed(1)}`;
    pen = "L";
  }
  return text;
}

// Lines by name over shared x values: [{name, values, style}].
function lineChart({ xs, series, xLabel, label, width = 340, height = 210, yTop }) {
  const all = series.flatMap((one) => one.values).filter((value) => value !== null && Number.isFinite(value));
  const low = Math.min(...all);
  const high = yTop === undefined ? Math.max(...all) : yTop;
  const pad = (high - low) * 0.06 || 0.5;
  const y = { low: Math.max(low - pad, Math.min(low, 0)), high: high + pad };
  y.ticks = ticks(y.low, y.high, 5);
  const x = { low: xs[0], high: xs.at(-1), ticks: ticks(xs[0], xs.at(-1), 5) };
  const chart = frame({ width, height, x, y, xLabel, label, margin: { left: 40, right: 14, top: 12, bottom: 38 } });
  const clip = (value) => (value === null ? null : Math.min(value, y.high));
  for (const one of series) {
    chart.layer.append(svgEl("path", { class: `line ${one.style}`, d: path(xs.map((v, i) => [v, clip(one.values[i])]), chart.px, chart.py) }));
  }
  chart.svg.addEventListener("pointermove", (event) => {
    const box = chart.svg.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * width;
    const i = xs.reduce((best, v, j) => (Math.abs(chart.px(v) - place) < Math.abs(chart.px(xs[best]) - place) ? j : best), 0);
    tip.show(event, `${xLabel} ${xs[i]}`, ...series.map((one) => `${one.name} ${one.values[i] === null ? "–" : one.values[i].toFixed(2)}`));
  });
  chart.svg.addEventListener("pointerleave", tip.hide);
  return chart;
}

// Dots with names beside them, pushed apart where they would overlap.
function scatterChart({ points, reference, xLabel, yLabel, label, width, height = 400 }) {
  const xs = points.map((point) => point.x);
  const ys = points.flatMap((point) => [point.y, point.low ?? point.y, point.high ?? point.y]).concat(reference ? [reference.y] : []);
  const x = { low: Math.min(...xs) / 1.35, high: Math.max(...xs) * 1.6, log: true };
  x.ticks = logTicks(x.low, x.high);
  const pad = (Math.max(...ys) - Math.min(...ys)) * 0.06 || 1;
  const y = { low: Math.min(...ys) - pad, high: Math.max(...ys) + pad };
  y.ticks = ticks(y.low, y.high, 5);
  const chart = frame({ width, height, x, y, xLabel, yLabel, label, margin: { left: 46, right: 14, top: 24, bottom: 42 } });
  if (reference) {
    const place = chart.py(reference.y);
    chart.layer.append(svgEl("line", { class: "reference", x1: 46, x2: width - 14, y1: place, y2: place }));
    chart.layer.append(svgEl("text", { class: "reference-label", x: width - 16, y: place - 6, "text-anchor": "end" }, reference.name));
  }
  const places = points.map((point) => [chart.px(point.x), chart.py(point.y)]);
  const taken = places.map(([px, py]) => [px - 7, py - 7, px + 7, py + 7]); // boxes that a name must not cover
  const bounds = [46, 14, width - 10, height - 46];
  points.forEach((point, i) => {
    const [px, py] = places[i];
    if (point.low !== null && point.high !== null) {
      chart.layer.append(svgEl("line", { class: "whisker", x1: px, x2: px, y1: Math.min(chart.py(point.low), height - 42), y2: Math.max(chart.py(point.high), 24) }));
    }
    const length = 7.4 * point.name.length;
    const tries = [];
    for (const dy of [4, -10, 18, -24, 32]) tries.push(["start", px + 10, py + dy], ["end", px - 10, py + dy]);
    const boxes = tries.map(([anchor, x, y]) => (anchor === "start" ? [x, y - 11, x + length, y + 3] : [x - length, y - 11, x, y + 3]));
    const free = boxes.findIndex((box) => inside(box, bounds) && !taken.some((other) => overlap(box, other)));
    const [anchor, tx, ty] = tries[Math.max(free, 0)];
    taken.push(boxes[Math.max(free, 0)]);
    chart.layer.append(svgEl("circle", { class: "dot", cx: px, cy: py, r: 5 }));
    chart.layer.append(svgEl("text", { class: "dot-label", x: tx, y: ty, "text-anchor": anchor }, ...nameSpans(point.name)));
  });
  return chart;
}

function overlap(a, b) {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}

function inside(box, bounds) {
  return box[0] >= bounds[0] && box[1] >= bounds[1] && box[2] <= bounds[2] && box[3] <= bounds[3];
}
