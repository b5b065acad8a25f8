// Reference and hypotheses in columns, and what a hypothesis fixes or breaks against another one.

function wordsOf(text) {
  return text === "" ? [] : text.split(" ");
}

// What a hypothesis has for each item of the reference, and what it inserts before each (and at the end).
function slots(texts, u, text) {
  return texts.columns === null ? slotsOfWords(texts.edits[text], wordsOf(texts.texts[text])) : slotsOfItems(texts.edits[text], texts.columns[text], texts.items[u].length);
}

function slotsOfWords(edits, words) {
  const at = [];
  const before = [[]];
  let next = 0;
  for (const kind of edits) {
    if (kind === "I") {
      before[at.length].push({ kind, word: words[next++] });
      continue;
    }
    at.push({ kind, word: kind === "D" ? null : words[next++] });
    before.push([]);
  }
  return { at, before };
}

// An item may be a group such as { can not / cannot }: its words share a cell, which is wrong if any of them is.
function slotsOfItems(edits, columns, size) {
  const at = Array.from({ length: size }, () => ({ kind: "=", word: null }));
  const before = Array.from({ length: size + 1 }, () => []);
  columns.forEach(([place, word, inserted], i) => {
    const kind = edits[i];
    if (inserted) {
      before[place].push({ kind, word });
      return;
    }
    const cell = at[place];
    if (kind !== "=") cell.kind = cell.kind === "=" && cell.word === null ? kind : "S";
    if (word !== null) cell.word = cell.word === null ? word : `${cell.word} ${word}`;
  });
  return { at, before };
}

// Columns {ref, cells}: one for each item of the reference, and one for each insertion that any hypothesis has there.
function columns(texts, u, chosen) {
  const ref = texts.items === null ? wordsOf(texts.refs[u]) : texts.items[u];
  const all = chosen.map((text) => slots(texts, u, text));
  const found = [];
  for (let place = 0; place <= ref.length; place++) {
    const inserted = Math.max(...all.map((one) => one.before[place].length));
    for (let i = 0; i < inserted; i++) {
      const cells = all.map((one) => one.before[place][i] ?? { kind: "", word: null });
      found.push({ ref: null, cells });
    }
    if (place < ref.length) found.push({ ref: ref[place], cells: all.map((one) => one.at[place]) });
  }
  return found;
}

function isWrong(cell) {
  return cell.kind === "S" || cell.kind === "D" || cell.kind === "I";
}

// How the second hypothesis of a column compares with the first: "fixed", "broken", "other" (wrong in another way), "".
function change({ cells: [first, second] }) {
  if (isWrong(first) && !isWrong(second)) return "fixed";
  if (!isWrong(first) && isWrong(second)) return "broken";
  return first.word === second.word ? "" : "other";
}

// Counts of fixed and broken columns, in all and by word, of one choice of texts against another.
function changes(texts, before, after) {
  const total = { fixed: 0, broken: 0, utterances: 0, words: new Map() };
  for (let u = 0; u < texts.size; u++) {
    if (before[u] === after[u]) continue;
    total.utterances++;
    for (const column of columns(texts, u, [before[u], after[u]])) {
      const kind = change(column);
      if (kind !== "fixed" && kind !== "broken") continue;
      total[kind]++;
      const word = column.ref === null ? `+ ${column.cells.find((cell) => cell.word !== null).word}` : column.ref;
      if (!total.words.has(word)) total.words.set(word, { fixed: 0, broken: 0 });
      total.words.get(word)[kind]++;
    }
  }
  return total;
}
