// Small helpers to build the page. Texts from data only ever become text nodes.

function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svgEl(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function replace(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  node.classList.remove("pending");
  return node;
}

function empty(text) {
  return el("p", { class: "empty" }, text);
}

// A method's name: E_D[h] with its index below.
function nameNodes(name) {
  return name.split(/\b(E_\w\[\w\])/).filter(Boolean).map((part) => {
    if (!/^E_\w\[\w\]$/.test(part)) return part;
    return el("span", {}, "E", el("sub", {}, part[2]), part.slice(3));
  });
}

// The same for a picture.
function nameSpans(name) {
  const found = name.match(/^(.*\bE)_(\w)(\[\w\].*)$/);
  if (!found) return [name];
  return [found[1], svgEl("tspan", { class: "sub", dy: 3 }, found[2]), svgEl("tspan", { dy: -3 }, found[3])];
}

// A group of radio buttons that look like chips; calls `choose(value)`. Entries are {value, label, title, note}.
let groups = 0;
function chips(legend, entries, chosen, choose) {
  const name = `group-${++groups}`;
  const labels = entries.map(({ value, label, title, note }) => {
    const input = el("input", { type: "radio", name, value, checked: value === chosen, onchange: () => choose(value) });
    return el("label", { class: "chip", title }, input, el("span", {}, ...nameNodes(label), note ? el("small", {}, note) : null));
  });
  const set = el("fieldset", { class: "chips" }, el("legend", {}, legend), el("div", {}, ...labels));
  set.choose = (value) => {
    for (const input of set.querySelectorAll("input")) input.checked = input.value === value;
  };
  return set;
}

function select(label, entries, chosen, choose) {
  const options = entries.map(({ value, label }) => el("option", { value, selected: value === chosen }, label));
  const box = el("select", { onchange: () => choose(box.value) }, ...options);
  return el("label", { class: "field" }, el("span", {}, label), box);
}

// A slider with a box for exact values. `values`: the only ones allowed, else any from min to max.
function slider({ id, label, hint, min, max, step, values, change }) {
  const index = (value) => values.reduce((best, one, i) => (Math.abs(one - value) < Math.abs(values[best] - value) ? i : best), 0);
  const range = el("input", { type: "range", id, min: values ? 0 : min, max: values ? values.length - 1 : max, step: values ? 1 : step });
  const box = el("input", { type: "number", id: `${id}-box`, step: "any", min: values ? values[0] : min, max: values ? values.at(-1) : max, "aria-label": `${label}, exact value` });
  const show = (value) => {
    range.value = values ? index(value) : value;
    range.setAttribute("aria-valuetext", String(value));
    box.value = scaleText(value);
  };
  range.addEventListener("input", () => {
    const value = values ? values[Number(range.value)] : Number(range.value);
    show(value);
    change(value);
  });
  box.addEventListener("change", () => {
    let value = Math.min(Math.max(Number(box.value) || 0, Number(box.min)), Number(box.max));
    if (values) value = values[index(value)];
    show(value);
    change(value);
  });
  const node = el("div", { class: "slider" }, el("label", { for: id }, label, hint ? el("small", {}, hint) : null), range, box);
  return { node, show };
}

// The note that follows the pointer.
const tip = {
  show(event, ...lines) {
    const node = document.getElementById("tip");
    node.replaceChildren(...lines.map((line) => el("div", {}, line)));
    node.hidden = false;
    const { width, height } = node.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - width - 8);
    const top = event.clientY + 18 + height > window.innerHeight ? event.clientY - height - 12 : event.clientY + 18;
    node.style.left = `${Math.max(8, left)}px`;
    node.style.top = `${top}px`;
  },
  hide() {
    document.getElementById("tip").hidden = true;
  },
};

// At least two decimals, and all that the value has.
function scaleText(value) {
  const two = value.toFixed(2);
  return Number(two) === value ? two : String(value);
}

function rateText(value) {
  return Number.isFinite(value) ? twoDecimals(value) : "∞";
}

// A difference with its sign; equal rates have none.
function differenceText(value) {
  const text = Math.abs(value).toFixed(2);
  return Number(text) === 0 ? "±0.00" : `${value < 0 ? "−" : "+"}${text}`;
}

// Light or dark: as the system has it, unless the reader chose.
const theme = {
  listeners: [],
  start() {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const kept = theme.remembered();
    if (kept) document.documentElement.dataset.theme = kept;
    document.getElementById("theme").addEventListener("click", () => {
      document.documentElement.dataset.theme = theme.isDark() ? "light" : "dark";
      try {
        localStorage.setItem("fewer-theme", document.documentElement.dataset.theme);
      } catch {
        // a page from disk may not be allowed to remember it
      }
      theme.changed();
    });
    dark.addEventListener("change", theme.changed);
  },
  remembered() {
    try {
      return localStorage.getItem("fewer-theme");
    } catch {
      return null;
    }
  },
  isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  },
  changed() {
    for (const listener of theme.listeners) listener();
  },
};
