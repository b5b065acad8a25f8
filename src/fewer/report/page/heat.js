// The WER over two scales as a picture: bands of colour with lines between them, the fewest errors the strongest ink.

const INK = {
  light: ["#083b4c", "#0d5867", "#1f7a80", "#4b9d97", "#83bdae", "#b3d6c5", "#d6e6d8", "#eaefe3", "#f4f3ec"],
  dark: ["#e9fff4", "#a9efd8", "#66d0bb", "#38a79d", "#227f80", "#1a5d66", "#17444f", "#16323b", "#152428"],
};

function hexColour(text) {
  return [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
}

// Where bands of colour begin: round steps from the lowest rate up to what most of the grid stays below.
function bands(surfaces) {
  const low = Math.min(...surfaces.map((surface) => surface.wer.reduce((a, b) => Math.min(a, b), Infinity)));
  const sorted = Float64Array.from(surfaces.flatMap((surface) => Array.from(surface.wer))).sort();
  const high = Math.max(Math.min(sorted[Math.floor(sorted.length * 0.75)], low * 1.7), low + 0.4);
  const count = INK.light.length;
  const rough = (high - low) / (count - 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((one) => one >= rough * 0.999);
  return { start: Math.floor(low / step + 1e-9) * step, step, count };
}

function bandOf(wer, { start, step, count }) {
  return Math.min(Math.max((wer - start) / step, 0), count - 0.001);
}

// Fill a canvas with the surface; λ1 to the right, λ2 upwards. `lines`: draw the bands' edges.
function paintSurface(canvas, surface, scale, lines) {
  const [columns, rows] = surface.axes.map((axis) => axis.length);
  const { width, height } = canvas;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const inks = INK[theme.isDark() ? "dark" : "light"].map(hexColour);
  const shade = theme.isDark() ? 0.8 : 0.86;
  const levels = new Float32Array(width * height);
  for (let y = 0; y < height; y++) {
    const row = (1 - (y + 0.5) / height) * (rows - 1);
    for (let x = 0; x < width; x++) levels[y * width + x] = bandOf(between(surface.wer, rows, columns, ((x + 0.5) / width) * (columns - 1), row), scale);
  }
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = y * width + x;
      const band = Math.floor(levels[at]);
      const edge = lines && ((x + 1 < width && Math.floor(levels[at + 1]) !== band) || (y + 1 < height && Math.floor(levels[at + width]) !== band));
      const ink = inks[band];
      for (let c = 0; c < 3; c++) image.data[4 * at + c] = edge ? ink[c] * shade : ink[c];
      image.data[4 * at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

// The rate between grid points; wer is (λ1, λ2), row after row of λ1.
function between(wer, rows, columns, column, row) {
  const c = Math.min(Math.floor(column), Math.max(columns - 2, 0));
  const r = Math.min(Math.floor(row), Math.max(rows - 2, 0));
  const dc = column - c;
  const dr = row - r;
  const right = Math.min(c + 1, columns - 1);
  const up = Math.min(r + 1, rows - 1);
  const low = wer[c * rows + r] * (1 - dr) + wer[c * rows + up] * dr;
  const high = wer[right * rows + r] * (1 - dr) + wer[right * rows + up] * dr;
  return low * (1 - dc) + high * dc;
}

// Index of the grid's value next to one; undefined stays so.
function nearest(axis, value) {
  return value === undefined ? undefined : axis.reduce((best, x, i) => (Math.abs(x - value) < Math.abs(axis[best] - value) ? i : best), 0);
}

// Of a surface over two scales: the rate at the tuned point, the lowest one, and whether tuning should have gone on.
function settled(surface) {
  const at = surface.names.map((name, axis) => nearest(surface.axes[axis], surface.chosen[name]));
  const tuned = surface.wer[at[0] * surface.axes[1].length + at[1]];
  const best = surface.wer.reduce((a, b, i, all) => (b < all[a] ? i : a), 0);
  const lowest = surface.wer[best];
  const lower = tuned - lowest > Math.max(0.05, 0.005 * tuned); // what tuning takes for equal
  const place = [surface.axes[0][Math.floor(best / surface.axes[1].length)], surface.axes[1][best % surface.axes[1].length]];
  return { tuned, lowest, place, open: tuned !== undefined && (lower || surface.converged === false) };
}

// Says that the tuned point is not the lowest, if so.
function unsettled(surface) {
  const { tuned, lowest, place, open } = settled(surface);
  if (!open) return null;
  const text = lowest < tuned ? ` The tuned point has ${rateText(tuned)} % here; ${rateText(lowest)} % is predicted at λ1 ${scaleText(place[0])}, λ2 ${scaleText(place[1])}, which no decode has confirmed.` : " The last decode did not agree with what was predicted for it.";
  return el("p", { class: "unsettled" }, el("b", {}, "Not converged."), text);
}

// A bar that says which colour is which rate.
function colourBar(scale) {
  const width = 34;
  const svg = svgEl("svg", { viewBox: `0 0 ${width * scale.count + 30} 34`, class: "colour-bar", role: "img", "aria-label": "Colours of the error rates" });
  const inks = INK[theme.isDark() ? "dark" : "light"];
  const digits = scale.step < 0.1 ? 2 : scale.step % 1 === 0 ? 0 : 1;
  for (let band = 0; band < scale.count; band++) {
    svg.append(svgEl("rect", { x: 14 + band * width, y: 2, width, height: 12, fill: inks[band] }));
    const more = band === scale.count - 1;
    if (digits === 2 && band % 2) continue; // no room for every label
    svg.append(svgEl("text", { x: 14 + band * width + (more ? 4 : 0), y: 28, "text-anchor": "middle" }, `${more ? "≥ " : ""}${(scale.start + band * scale.step).toFixed(digits)}`));
  }
  return svg;
}

// The picture with axes, the tuned point, the decodes of tuning and a cross at the sliders' place.
function surfacePlot(surface, scale, { label, pick }) {
  const size = 420;
  const margin = { left: 46, right: 10, top: 10, bottom: 44 };
  const [xs, ys] = surface.axes;
  const chart = frame({
    width: size + margin.left + margin.right,
    height: size + margin.top + margin.bottom,
    margin,
    x: { low: xs[0], high: xs.at(-1), ticks: ticks(xs[0], xs.at(-1), 6) },
    y: { low: ys[0], high: ys.at(-1), ticks: ticks(ys[0], ys.at(-1), 6) },
    xLabel: `${SCALE_NAMES[surface.names[0]] || surface.names[0]}`,
    label,
  });
  chart.svg.append(svgEl("text", { class: "axis-label", transform: `translate(11 ${margin.top + size / 2}) rotate(-90)`, "text-anchor": "middle" }, SCALE_NAMES[surface.names[1]] || surface.names[1]));
  const canvas = el("canvas", { width: size, height: size, "aria-hidden": "true" });
  const paint = () => paintSurface(canvas, surface, scale, true);
  paint();
  const cross = svgEl("g", { class: "cross" });
  const marks = svgEl("g", { class: "marks" });
  surface.trials.forEach(({ at }, i) => {
    const [x, y] = [chart.px(at[surface.names[0]]), chart.py(at[surface.names[1]])];
    marks.append(svgEl("circle", { cx: x, cy: y, r: 8, class: "trial" }), svgEl("text", { x, y: y + 3.5, "text-anchor": "middle", class: "trial" }, String(i + 1)));
  });
  const [tx, ty] = surface.names.map((name) => surface.chosen[name]);
  if (tx !== undefined) marks.append(svgEl("circle", { cx: chart.px(tx), cy: chart.py(ty), r: 11, class: "chosen" }));
  chart.svg.append(marks, cross);
  const holder = el("div", { class: "surface" }, canvas, chart.svg);
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const share = [(event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height];
    return share.every((one) => one >= 0 && one <= 1) ? share : null;
  };
  chart.svg.addEventListener("pointermove", (event) => {
    const share = at(event);
    if (!share) return tip.hide();
    const [i, j] = share.map((one, axis) => Math.round(one * (surface.axes[axis].length - 1)));
    tip.show(event, `λ1 ${xs[i].toFixed(2)}   λ2 ${ys[j].toFixed(2)}`, `WER ${rateText(surface.wer[i * ys.length + j])} %`);
    if (event.buttons & 1) pick(xs[i], ys[j]);
  });
  chart.svg.addEventListener("pointerdown", (event) => {
    const share = at(event);
    if (share) pick(...share.map((one, axis) => surface.axes[axis][Math.round(one * (surface.axes[axis].length - 1))]));
  });
  chart.svg.addEventListener("pointerleave", tip.hide);
  const move = (x, y) => {
    const [px, py] = [chart.px(x), chart.py(y)];
    cross.replaceChildren(
      ...["under", "over"].flatMap((style) => [
        svgEl("line", { class: style, x1: px, x2: px, y1: margin.top, y2: margin.top + size }),
        svgEl("line", { class: style, x1: margin.left, x2: margin.left + size, y1: py, y2: py }),
      ]),
      svgEl("circle", { cx: px, cy: py, r: 5 }),
    );
  };
  return { node: holder, move, paint };
}
