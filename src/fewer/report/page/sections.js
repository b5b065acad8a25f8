// The sections that do not move with the sliders.

const TOP_WORDS = 14;

function showChanges(run, node, explorer) {
  const sets = run.value.sets.filter((set) => run.keys(set).some((key) => run.row(key).baseline && run.lists(set, run.row(key).baseline)));
  if (!sets.length) return replace(node, empty("This run has no N-best lists of shallow fusion and another method to compare."));
  const start = sets.find((set) => !run.value.tunedSets.includes(set)) || sets[0];
  const body = el("div", {});
  const draw = (set) => {
    const rows = run.keys(set).map((key) => run.row(key)).filter((row) => row.baseline && run.lists(set, row.baseline));
    const found = rows.map((row) => ({ row, total: changes(run.texts(set), run.tuned(set, row.baseline), run.tuned(set, row.key)) }));
    const most = Math.max(1, ...found.flatMap(({ total }) => [total.fixed, total.broken]));
    replace(body, changeHead(), ...found.map(({ row, total }) => changeCard(row, total, most, (word) => {
      explorer.open(set, row.key);
      explorer.browser.find(word.replace(/^\+ /, ""));
    })));
  };
  replace(node, el("div", { class: "card" }, chips("Set", sets.map((set) => ({ value: set, label: set, note: run.value.tunedSets.includes(set) ? "tuned on" : null })), start, draw), body));
  draw(start);
}

function changeHead() {
  const names = ["", "broken", "", "", "fixed", "net"].map((name, i) => el("span", { class: `c${i}` }, name));
  return el("div", { class: "change-head", "aria-hidden": "true" }, ...names);
}

function changeCard(row, total, most, find) {
  const net = total.fixed - total.broken;
  const bar = (kind) => {
    const width = (100 * total[kind]) / most;
    return svgEl("svg", { class: `bar ${kind}`, viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, svgEl("rect", { x: kind === "broken" ? 100 - width : 0, y: 0, width, height: 10, rx: 1 }));
  };
  const words = (kind) => {
    const other = kind === "fixed" ? "broken" : "fixed";
    const list = [...total.words].filter(([, counts]) => counts[kind] > 0).sort((a, b) => b[1][kind] - b[1][other] - (a[1][kind] - a[1][other]) || b[1][kind] - a[1][kind] || (a[0] < b[0] ? -1 : 1));
    const buttons = list.slice(0, TOP_WORDS).map(([word, counts]) =>
      el("button", { type: "button", class: `word ${kind}`, title: `fixed ${counts.fixed}, broken ${counts.broken}: show where`, onclick: () => find(word) }, word, el("small", {}, `${counts[kind]}`)),
    );
    const rest = list.length > TOP_WORDS ? el("span", { class: "fine" }, `and ${list.length - TOP_WORDS} more`) : null;
    return el("div", {}, el("h4", {}, kind === "fixed" ? "Fixed most" : "Broken most"), list.length ? el("p", { class: "words-list" }, ...buttons, rest) : el("p", { class: "fine" }, "none"));
  };
  return el(
    "details",
    { class: "change" },
    el(
      "summary",
      {},
      el("span", { class: "name" }, ...nameNodes(row.name)),
      el("span", { class: "number bad" }, total.broken ? `−${total.broken}` : "0"),
      bar("broken"),
      bar("fixed"),
      el("span", { class: "number good" }, total.fixed ? `+${total.fixed}` : "0"),
      el("span", { class: `net ${net > 0 ? "good" : net < 0 ? "bad" : ""}` }, `${net > 0 ? "+" : net < 0 ? "−" : "±"}${Math.abs(net)}`),
    ),
    el("div", { class: "halves" }, words("fixed"), words("broken")),
    el("p", { class: "fine" }, `${total.utterances} utterances differ. A + marks an inserted word. Choose a word to see where.`),
  );
}

function showGallery(run, node, explorer) {
  const keys = run.rows.map((row) => row.key).filter((key) => (run.surface(key, "surface") || { names: [] }).names.length === 2);
  if (!keys.length) return replace(node, empty("No method of this run has both scales tuned, so there is no surface to show."));
  const surfaces = keys.map((key) => run.surface(key, "surface"));
  const scale = bands(surfaces);
  const bar = el("div", { class: "bar-holder" });
  const canvases = surfaces.map(() => el("canvas", { width: 160, height: 160, "aria-hidden": "true" }));
  const paint = () => {
    surfaces.forEach((surface, i) => paintSurface(canvases[i], surface, scale, false));
    replace(bar, colourBar(scale));
  };
  const cards = keys.map((key, i) => {
    const surface = surfaces[i];
    const [x, y] = surface.names.map((name, axis) => (surface.chosen[name] - surface.axes[axis][0]) / (surface.axes[axis].at(-1) - surface.axes[axis][0]));
    const mark = svgEl("svg", { viewBox: "0 0 100 100", "aria-hidden": "true" }, Number.isFinite(x + y) ? svgEl("circle", { class: "chosen", cx: 100 * x, cy: 100 * (1 - y), r: 4.5 }) : null);
    const { tuned, lowest, open: notConverged } = settled(surface);
    const known = explorer !== null && run.keys(run.value.tunedOn).includes(key);
    const open = () => {
      explorer.open(run.value.tunedOn, key);
      document.getElementById("explore").scrollIntoView({ behavior: "smooth" });
    };
    return el("button", { type: "button", class: "thumb", disabled: !known, onclick: open }, el("span", { class: "map" }, canvases[i], mark), el("b", {}, ...nameNodes(run.row(key).name)), el("small", {}, ...(tuned === undefined ? [] : [`${rateText(tuned)} % tuned`, el("br")]), `${rateText(lowest)} % lowest`), notConverged ? el("span", { class: "unsettled" }, "not converged") : null);
  });
  paint();
  theme.listeners.push(paint);
  replace(node, el("div", { class: "card" }, el("div", { class: "thumbs" }, ...cards), bar, el("p", { class: "fine" }, `WER in % on ${run.value.tunedOn}; λ1 to the right, λ2 upwards, from ${surfaces[0].axes[0][0]} to ${surfaces[0].axes[0].at(-1)}. The ring is the tuned point. Not converged: a lower rate is predicted elsewhere, which no decode has confirmed.`)));
}

function showPerplexities(run, node) {
  const rows = run.rows.filter((row) => row.ppl !== null);
  const sets = run.value.resultSets.filter((set) => rows.some((row) => row.wer[set]));
  if (!rows.length || !sets.length) return replace(node, empty("This run measured no perplexity of an internal language model."));
  const start = sets.find((set) => !run.value.tunedSets.includes(set)) || sets[0];
  const body = el("div", {});
  const draw = (set) => {
    const points = rows.filter((row) => row.wer[set]).map((row) => ({ name: row.name, x: row.ppl, y: row.wer[set].wer, low: row.wer[set].low, high: row.wer[set].high }));
    const bases = new Set(rows.map((row) => row.baseline)); // one for each recogniser
    const base = bases.size === 1 && run.rows.find((row) => bases.has(row.key) && row.wer[set]);
    const on = [...new Set(rows.map((row) => row.pplSet).filter(Boolean))].join(", ");
    const chart = scatterChart({
      points,
      reference: base ? { y: base.wer[set].wer, name: base.name } : null,
      xLabel: `perplexity per label${on ? ` on ${on}` : ""}, logarithmic`,
      yLabel: `WER % on ${set}`,
      width: Math.round(Math.min(Math.max(node.clientWidth - 44, 300), 900)),
      label: points.map((point) => `${point.name}: perplexity ${point.x.toFixed(1)}, WER ${rateText(point.y)} %`).join("; "),
    });
    replace(body, chart.svg);
  };
  replace(node, el("div", { class: "card" }, chips("Set", sets.map((set) => ({ value: set, label: set, note: run.value.tunedSets.includes(set) ? "tuned on" : null })), start, draw), body));
  draw(start);
  window.addEventListener("resize", () => draw(node.querySelector("input:checked").value));
}

function showCurves(run, node) {
  const { curves } = run.value;
  if (!curves.length) return replace(node, empty("This run holds no training curves: its models were trained elsewhere."));
  const names = { train: "training", dev: "dev" };
  const cards = curves.map(({ name, steps, series }) => {
    const lines = Object.entries(series).map(([key, values]) => ({ name: names[key], values, style: key }));
    const last = lines.map((line) => `${line.name} ${(line.values.filter((value) => value !== null).at(-1) ?? NaN).toFixed(2)}`).join(", ");
    const chart = steps.length > 1 ? lineChart({ xs: steps, series: lines, xLabel: "step", label: `Cross entropy of ${name}; at the end ${last}` }).svg : null;
    return el("figure", { class: "card" }, el("figcaption", {}, el("b", {}, name), el("span", { class: "fine" }, last)), chart);
  });
  const legend = el("p", { class: "fine legend" }, el("span", { class: "key train-key" }), " training  ", el("span", { class: "key dev-key" }), " dev");
  replace(node, el("div", { class: "multiples" }, ...cards), legend);
}

function showAttention(run, node) {
  const { attention } = run.value;
  if (!attention.length) return replace(node, empty("This run keeps no attention weights."));
  const body = el("div", {});
  const draw = (id) => {
    const one = attention.find((utterance) => utterance.id === id);
    const weights = run.value.numbers(one.weights);
    const rows = one.labels.length;
    const canvas = el("canvas", { width: one.frames, height: rows, role: "img", "aria-label": `Attention weights of ${id}: ${rows} labels over ${one.frames} frames` });
    const context = canvas.getContext("2d");
    const image = context.createImageData(one.frames, rows);
    const [low, high] = (theme.isDark() ? ["#1a2226", "#a9efd8"] : ["#ffffff", "#083b4c"]).map(hexColour);
    const most = weights.reduce((a, b) => Math.max(a, b), 1);
    weights.forEach((weight, i) => {
      const share = Math.sqrt(weight / most); // faint weights stay visible
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = low[c] + share * (high[c] - low[c]);
      image.data[4 * i + 3] = 255;
    });
    context.putImageData(image, 0, 0);
    canvas.style.height = `${Math.max(rows * 20, 60)}px`;
    const labels = el("ol", { class: "labels", "aria-hidden": "true" }, ...one.labels.map((label) => el("li", {}, label)));
    replace(body, el("p", { class: "quote" }, one.text), el("div", { class: "attention" }, labels, canvas), el("p", { class: "fine" }, `${one.frames} frames of the encoder. Ink grows with the square root of the weight.`));
  };
  const chosen = attention[0].id;
  let current = chosen;
  const box = chips("Utterance", attention.map((one) => ({ value: one.id, label: one.id })), chosen, (id) => draw((current = id)));
  theme.listeners.push(() => draw(current));
  replace(node, el("div", { class: "card" }, box, body));
  draw(chosen);
}
