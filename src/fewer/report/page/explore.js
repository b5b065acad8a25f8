// The explorer: sliders, the surface they move on, and what they do to the errors.

const SCALE_NAMES = { lm: "λ1 (LM)", ilm: "λ2 (ILM)" };
const SUBTRACTED = new Set(["ilm"]);

// λ1 before λ2, as in the formula.
function inOrder(terms) {
  const known = ["aed", "lm", "ilm"];
  const place = (term) => (known.includes(term) ? known.indexOf(term) : known.length);
  return [...terms].sort((a, b) => place(a) - place(b));
}

class Explorer {
  constructor(run, node) {
    this.run = run;
    this.set = run.value.sets.find((name) => !run.value.tunedSets.includes(name)) || run.value.sets[0]; // rates where it was tuned flatter
    const keys = run.keys(this.set);
    this.key = keys.includes(run.value.start) ? run.value.start : keys[0];
    this.against = null;
    this.crosshairs = [];
    this.lists = run.lists(this.set, this.key);
    this.setting = tunedSetting(this.lists);
    this.controls = el("div", { class: "controls" });
    this.picture = el("div", { class: "picture" });
    this.lengths = el("div", { class: "lengths" });
    this.numbers = el("div", { class: "live", "aria-live": "polite" });
    this.browser = new Browser(this);
    replace(
      node,
      el("div", { class: "card" }, this.choices(), el("div", { class: "halves" }, this.picture, el("div", {}, this.numbers, this.controls, this.lengths))),
      this.browser.node,
    );
    theme.listeners.push(() => this.drawPicture());
    this.opened();
  }

  choices() {
    const { run } = this;
    this.setChips = chips(
      "Set",
      run.value.sets.map((name) => ({ value: name, label: name, note: run.value.tunedSets.includes(name) ? "tuned on" : null })),
      this.set,
      (name) => this.open(name, this.key),
    );
    this.methodChips = chips(
      "Method",
      run.rows.filter((row) => run.value.sets.some((set) => run.keys(set).includes(row.key))).map((row) => ({ value: row.key, label: row.name, title: row.about })),
      this.key,
      (key) => this.open(this.set, key),
    );
    return el("div", { class: "choices" }, this.setChips, this.methodChips);
  }

  open(set, key) {
    if (!this.run.keys(set).includes(key)) key = this.run.keys(set)[0];
    this.set = set;
    this.key = key;
    this.setChips.choose(set);
    this.methodChips.choose(key);
    this.lists = this.run.lists(set, key);
    this.setting = tunedSetting(this.lists);
    this.opened();
  }

  opened() {
    const texts = this.run.texts(this.set);
    this.texts = texts;
    this.tunedChoice = chosenTexts(this.lists, rank(this.lists, tunedSetting(this.lists), this.run.powers));
    this.against = this.run.row(this.key).baseline || this.run.keys(this.set).find((key) => key !== this.key) || this.key;
    if (!this.run.lists(this.set, this.against)) this.against = this.key;
    this.drawControls();
    this.drawPicture();
    this.browser.opened();
    this.moved();
  }

  get comparison() {
    return this.against === this.key ? this.tunedChoice : this.run.tuned(this.set, this.against);
  }

  drawControls() {
    const { lists, setting } = this;
    this.sliders = {};
    inOrder(lists.terms).forEach((term) => {
      const i = lists.terms.indexOf(term);
      if (!lists.ranges[term]) return;
      const sign = SUBTRACTED.has(term) ? -1 : 1;
      const [min, max] = lists.ranges[term];
      this.sliders[term] = slider({
        id: `scale-${term}`,
        label: SCALE_NAMES[term] || term,
        hint: sign < 0 ? "subtracted" : "added",
        min,
        max,
        step: this.run.value.scaleStep,
        change: (value) => {
          setting.scales[i] = sign * value;
          this.moved();
        },
      });
    });
    const byReward = lists.rewards[0] !== lists.rewards[1];
    this.sliders.length = slider({
      id: "length",
      label: byReward ? "Length reward" : "Length exponent",
      hint: byReward ? "added for each label" : "score / lengthᵉ",
      min: lists.rewards[0],
      max: lists.rewards[1],
      step: 0.05,
      values: byReward ? null : lists.exponents,
      change: (value) => {
        setting[byReward ? "reward" : "exponent"] = value;
        this.moved();
      },
    });
    this.showSliders();
    const reset = el("button", { type: "button", id: "reset", onclick: () => this.go(tunedSetting(lists)) }, "As tuned");
    const zero = { ...tunedSetting(lists), scales: lists.terms.map((term, i) => (lists.ranges[term] ? 0 : lists.scales[i])) };
    const off = el("button", { type: "button", onclick: () => this.go(zero) }, "Recogniser alone");
    const scaled = Object.keys(lists.ranges).length > 0;
    replace(
      this.controls,
      ...Object.values(this.sliders).map((one) => one.node),
      el("div", { class: "buttons" }, reset, scaled ? off : null),
      el("p", { class: "fine" }, this.origin()),
    );
  }

  origin() {
    const { lists } = this;
    const kept = lists.lengths.length.toLocaleString("en");
    const from = lists.pool
      ? `a pool of ${lists.hypotheses.toLocaleString("en")} hypotheses that tuning found`
      : `${lists.hypotheses.toLocaleString("en")} hypotheses of one search at the tuned scales; far from those, a new search would find better ones`;
    const reference = this.run.value.references[this.set];
    const counted = reference ? ` Errors are counted by the transcripts of the segments, in the table by ${reference}.` : "";
    return `Ranked live from ${from}. The ${kept} that can win somewhere are stored.${counted}`;
  }

  showSliders() {
    const { lists, setting, sliders } = this;
    lists.terms.forEach((term, i) => sliders[term] && sliders[term].show(Math.abs(setting.scales[i])));
    sliders.length.show(lists.rewards[0] !== lists.rewards[1] ? setting.reward : setting.exponent);
  }

  go(setting) {
    Object.assign(this.setting, { ...setting, scales: [...setting.scales] });
    this.showSliders();
    this.moved();
  }

  // The sliders stand elsewhere: rank, count, and show.
  moved() {
    this.chosen = rank(this.lists, this.setting, this.run.powers);
    this.choice = chosenTexts(this.lists, this.chosen);
    this.drawNumbers();
    this.point();
    this.browser.update();
  }

  drawNumbers() {
    const { texts } = this;
    const now = corpus(texts, this.choice);
    const tuned = corpus(texts, this.tunedChoice);
    const other = corpus(texts, this.comparison);
    const facts = [
      [["as tuned"], `${rateText(tuned.wer)} %`, differenceText(now.wer - tuned.wer), now.errors - tuned.errors],
      [nameNodes(this.run.row(this.against).name), `${rateText(other.wer)} %`, differenceText(now.wer - other.wer), now.errors - other.errors],
    ];
    const output = el("output", { id: "wer", "data-errors": now.errors, "data-words": now.words }, rateText(now.wer));
    replace(
      this.numbers,
      el("p", { class: "big" }, output, el("span", {}, "% WER")),
      el("p", { class: "counts" }, `${now.errors.toLocaleString("en")} errors in ${now.words.toLocaleString("en")} words: ${now.sub} substituted, ${now.del} deleted, ${now.ins} inserted. ${now.wrong} of ${now.utterances} utterances wrong.`),
      el(
        "dl",
        { class: "deltas" },
        ...facts
          .slice(0, this.against === this.key ? 1 : 2)
          .flatMap(([name, rate, delta, errors]) => [
            el("dt", {}, ...name),
            el("dd", {}, rate, el("b", { class: errors < 0 ? "good" : errors > 0 ? "bad" : "" }, delta)),
          ]),
      ),
    );
  }

  drawPicture() {
    const surface = this.run.surface(this.key, "surface");
    const length = this.run.surface(this.key, "length");
    this.crosshairs = [];
    const parts = [];
    if (surface && surface.names.length === 2) parts.push(...this.drawSurface(surface));
    else if (surface && surface.names.length === 1) parts.push(this.drawCurve(surface, `WER on ${this.run.value.tunedOn} over ${SCALE_NAMES[surface.names[0]] || surface.names[0]}, else as tuned`, 260));
    else parts.push(empty(Object.keys(this.lists.ranges).length ? "This run keeps no WER surface of this method." : "This method has no scales: the recogniser stands alone."));
    const flat = !surface || surface.names.length < 2;
    const curve = length && length.names.length === 1 ? this.drawCurve(length, `WER on ${this.run.value.tunedOn} over the length ${length.names[0]}, else as tuned`, flat ? 220 : 150) : null;
    replace(this.picture, ...parts, flat ? curve : null);
    replace(this.lengths, flat ? null : curve);
    this.point();
  }

  // Show where the sliders stand.
  point() {
    for (const crosshair of this.crosshairs) crosshair();
  }

  drawSurface(surface) {
    const scale = bands([surface]);
    const lowest = surface.wer.reduce((a, b) => Math.min(a, b), Infinity);
    const [first, second] = surface.names;
    const plot = surfacePlot(surface, scale, {
      label: `WER over ${first} and ${second}, from ${rateText(lowest)} % upwards; tuned at ${first} ${surface.chosen[first]}, ${second} ${surface.chosen[second]}`,
      pick: (x, y) => this.pick({ [first]: x, [second]: y }),
    });
    this.crosshairs.push(() => plot.move(this.valueOf(first), this.valueOf(second)));
    const legend = el(
      "p",
      { class: "fine" },
      `WER in % on ${this.run.value.tunedOn}, from the pool, at the tuned length. Press on the picture to move the scales. `,
      el("span", { class: "key chosen-key" }), " tuned  ",
      el("span", { class: "key trial-key" }), " decodes of tuning, in order",
    );
    return [plot.node, colourBar(scale), unsettled(surface), legend];
  }

  drawCurve(surface, title, height) {
    const xs = surface.axes[0];
    const lowest = surface.wer.reduce((a, b) => Math.min(a, b), Infinity);
    const chart = lineChart({
      xs,
      series: [{ name: "WER", values: Array.from(surface.wer), style: "main" }],
      xLabel: SCALE_NAMES[surface.names[0]] || surface.names[0],
      label: `${title}, lowest ${rateText(lowest)} %`,
      width: 476,
      height,
      yTop: Math.min(Math.max(...surface.wer), lowest * 2.5 + 0.5),
    });
    const chosen = surface.chosen[surface.names[0]];
    const at = nearest(xs, chosen);
    if (chosen !== undefined) chart.layer.append(svgEl("circle", { class: "chosen", cx: chart.px(xs[at]), cy: chart.py(surface.wer[at]), r: 7 }));
    const line = svgEl("line", { class: "here", y1: 12, y2: height - 38 });
    chart.layer.append(line);
    this.crosshairs.push(() => {
      line.setAttribute("x1", chart.px(this.valueOf(surface.names[0])));
      line.setAttribute("x2", chart.px(this.valueOf(surface.names[0])));
    });
    return el("figure", {}, el("figcaption", {}, title), chart.svg);
  }

  // A scale, exponent or reward as the sliders have it.
  valueOf(name) {
    if (name === "exponent" || name === "reward") return this.setting[name];
    const i = this.lists.terms.indexOf(name);
    return i < 0 ? 0 : Math.abs(this.setting.scales[i]);
  }

  pick(values) {
    this.lists.terms.forEach((term, i) => {
      if (term in values && this.lists.ranges[term]) this.setting.scales[i] = (SUBTRACTED.has(term) ? -1 : 1) * values[term];
    });
    this.showSliders();
    this.moved();
  }
}
