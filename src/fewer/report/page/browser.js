// The utterances, one by one: reference, another row's hypothesis and the explorer's, in columns.

const PAGE = matchMedia("(max-width: 52rem)").matches ? 4 : 12; // utterances at first; a phone has less room
const FILTERS = {
  all: { label: "all utterances", keep: () => true },
  changed: { label: "changed", keep: (one) => one.changed },
  fixed: { label: "better", keep: (one) => one.errors < one.before },
  broken: { label: "worse", keep: (one) => one.errors > one.before },
  wrong: { label: "with errors", keep: (one) => one.errors > 0 },
};
const ORDERS = {
  file: { label: "as in the set", compare: (a, b) => a.u - b.u },
  better: { label: "most improved", compare: (a, b) => a.errors - a.before - (b.errors - b.before) || a.u - b.u },
  worse: { label: "most harmed", compare: (a, b) => b.errors - b.before - (a.errors - a.before) || a.u - b.u },
  errors: { label: "most errors", compare: (a, b) => b.errors - a.errors || a.u - b.u },
  rate: { label: "highest WER", compare: (a, b) => b.rate - a.rate || a.u - b.u },
  length: { label: "longest", compare: (a, b) => b.words - a.words || a.u - b.u },
};

class Browser {
  constructor(explorer) {
    this.explorer = explorer;
    this.filter = "changed";
    this.order = "better";
    this.query = "";
    this.shown = PAGE;
    this.bar = el("div", { class: "toolbar" });
    this.status = el("p", { class: "status", role: "status" });
    this.list = el("ol", { class: "utterances" });
    this.more = el("button", { type: "button", class: "more", onclick: () => this.showMore() }, "Show more");
    this.node = el("div", { class: "browser" }, el("h3", { id: "utterances" }, "Utterances"), this.bar, this.status, this.list, this.more);
    const choose = (name) => (value) => {
      this[name] = value;
      this.restart();
    };
    const entries = (table) => Object.entries(table).map(([value, { label }]) => ({ value, label }));
    this.search = el("input", { type: "search", id: "search", placeholder: "words or id", oninput: () => choose("query")(this.search.value) });
    this.againstBox = el("span", { class: "field-slot" });
    this.bar.append(
      el("label", { class: "field grow" }, el("span", {}, "Search"), this.search),
      select("Show", entries(FILTERS), this.filter, choose("filter")),
      select("Sort by", entries(ORDERS), this.order, choose("order")),
      this.againstBox,
    );
    this.showSelect = this.bar.querySelector("select");
  }

  // Another set or row: the rows to compare with may be others.
  opened() {
    const { explorer } = this;
    const entries = explorer.run.keys(explorer.set).map((key) => {
      const name = explorer.run.row(key).name;
      return { value: key, label: key === explorer.key ? `${name}, tuned scales` : name };
    });
    const box = select("Compare with", entries, explorer.against, (key) => {
      explorer.against = key;
      explorer.drawNumbers();
      this.restart();
    });
    replace(this.againstBox, box);
    this.shown = PAGE;
  }

  restart() {
    this.shown = PAGE;
    this.update();
  }

  find(text) {
    this.search.value = this.query = text;
    this.filter = this.showSelect.value = "all";
    this.restart();
    this.node.scrollIntoView({ behavior: "smooth", block: "start" });
  }

  showMore() {
    const first = this.shown;
    this.shown += 8 * PAGE;
    this.update();
    const next = this.list.children[first];
    if (next) next.querySelector("summary").focus();
  }

  entries() {
    const { texts, choice, comparison } = this.explorer;
    const words = this.query.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (let u = 0; u < texts.size; u++) {
      const [now, other] = [choice[u], comparison[u]];
      const one = { u, now, other, changed: now !== other, errors: texts.errors(now), before: texts.errors(other), words: texts.words[now] };
      one.rate = percent(one.errors, one.words);
      if (!FILTERS[this.filter].keep(one)) continue;
      const id = texts.ids[u].toLocaleLowerCase();
      const hay = ` ${texts.refs[u]} ${texts.texts[now]} ${texts.texts[other]}`.toLocaleLowerCase();
      if (words.every((word) => id.includes(word) || hay.includes(` ${word}`))) found.push(one); // beginnings of words
    }
    return found.sort(ORDERS[this.order].compare);
  }

  update() {
    const found = this.entries();
    const total = this.explorer.texts.size;
    const open = new Set([...this.list.querySelectorAll("li[data-open]")].map((node) => node.dataset.id));
    const rows = found.slice(0, this.shown).map((one) => this.row(one, open));
    this.list.replaceChildren(...rows);
    this.more.hidden = found.length <= this.shown;
    const hint = found.length || this.filter === "all" ? "" : this.filter === "changed" ? " Move a slider, or show all utterances." : " Show all utterances to see more.";
    this.status.textContent = found.length ? `${Math.min(this.shown, found.length)} of ${found.length} shown, ${total} in the set. Lines of each: ${this.lines().join(", ")}.` : `None of the ${total} utterances match.${hint}`;
  }

  lines() {
    const { run, key, against } = this.explorer;
    return ["reference", against === key ? `${run.row(key).name} at its tuned scales` : run.row(against).name, `${run.row(key).name} now`];
  }

  row(one, open) {
    const { texts, run, key, against } = this.explorer;
    const id = texts.ids[one.u];
    const gain = one.before - one.errors;
    const verdict = !one.changed ? null : el("span", { class: `badge ${gain > 0 ? "good" : gain < 0 ? "bad" : ""}` }, gain === 0 ? "changed" : `${Math.abs(gain)} ${gain > 0 ? "fewer" : "more"}`);
    const errors = `${one.errors} ${one.errors === 1 ? "error" : "errors"} in ${one.words}`;
    const head = el("header", {}, el("code", {}, id), el("span", { class: "fine" }, errors), verdict);
    const [otherName, name] = [against === key ? "tuned" : run.row(against).name, run.row(key).name];
    const details = el("details", { open: open.has(id) }, el("summary", {}, "Hypotheses"));
    const item = el("li", { "data-id": id, "data-open": open.has(id) }, head, alignment(texts, one, ["Reference", otherName, name]), details);
    const fillIn = () => details.open && details.children.length === 1 && details.append(this.hypotheses(one.u));
    details.addEventListener("toggle", () => {
      item.toggleAttribute("data-open", details.open);
      fillIn();
    });
    fillIn();
    return item;
  }

  // The stored hypotheses of an utterance in their present order, with every term's score.
  hypotheses(u) {
    const { lists, texts, setting, run } = this.explorer;
    const power = run.powers.of(setting.exponent);
    const found = [];
    for (let h = lists.starts[u]; h < lists.starts[u + 1]; h++) found.push({ h, score: rescored(lists.scores, setting, lists.lengths[h], power, h) });
    found.sort((a, b) => b.score - a.score || a.h - b.h);
    const order = inOrder(lists.terms).map((term) => lists.terms.indexOf(term));
    const head = ["", "score", ...order.map((i) => lists.terms[i]), "labels", "errors"].map((name) => el("th", { scope: "col" }, name));
    const rows = found.slice(0, 12).map(({ h, score }) => {
      const cells = [score.toFixed(3), ...order.map((i) => lists.scores[i][h].toFixed(2)), lists.lengths[h], texts.errors(lists.texts[h])];
      return el("tr", {}, el("td", { class: "words" }, texts.texts[lists.texts[h]] || "(nothing)"), ...cells.map((cell) => el("td", {}, String(cell))));
    });
    return el("div", { class: "scroll" }, el("table", { class: "hypotheses" }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)));
  }
}

// Words below each other. Right words are quiet; errors, and what changed, stand out by colour and by a mark.
function alignment(texts, one, names) {
  const same = one.now === one.other;
  const found = columns(texts, one.u, same ? [one.now] : [one.other, one.now]);
  const shown = same ? [names[0], names[2]] : names;
  const labels = el("div", { class: "column names", "aria-hidden": "true" }, ...shown.map((name) => el("span", { title: name }, ...nameNodes(name))));
  const parts = found.map((column) => {
    const kind = same ? "" : change(column);
    const cells = column.cells.map((cell, i) => {
      const last = i === column.cells.length - 1;
      const wrong = isWrong(cell) ? "wrong" : "";
      const mark = last && kind === "fixed" ? "fixed" : last && kind === "broken" ? "broken" : "";
      return el("span", { class: `${wrong} ${mark}` }, cell.word === null ? (cell.kind === "D" ? "∅" : "·") : cell.word);
    });
    return el("div", { class: `column ${kind}` }, el("span", { class: "ref" }, column.ref === null ? "·" : column.ref), ...cells);
  });
  const spoken = shown.map((name, i) => `${name}: ${(i === 0 ? texts.refs[one.u] : texts.texts[i === shown.length - 1 ? one.now : one.other]) || "nothing"}.`);
  return el("div", { class: "alignment", role: "img", "aria-label": spoken.join(" ") }, labels, el("div", { class: "columns" }, ...parts));
}
