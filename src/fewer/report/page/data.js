// The run's data: one JSON value and arrays of numbers, unpacked from the base64 text at the end of the page.

const KINDS = { f64: Float64Array, i32: Int32Array, u8: Uint8Array };

async function unpack(base64) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const value = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let offset = 4 + length;
  for (const place of Object.values(value.arrays)) {
    place.offset = offset;
    offset += place.count * KINDS[place.kind].BYTES_PER_ELEMENT;
  }
  value.numbers = (name) => numbers(buffer, value.arrays[name]);
  return value;
}

// An array's bytes lie plane by plane; a delta array holds differences of neighbours.
function numbers(buffer, { kind, count, delta, offset }) {
  const size = KINDS[kind].BYTES_PER_ELEMENT;
  const planes = new Uint8Array(buffer, offset, count * size);
  const bytes = new Uint8Array(count * size);
  for (let plane = 0; plane < size; plane++) {
    for (let i = 0; i < count; i++) bytes[i * size + plane] = planes[plane * count + i];
  }
  const values = new KINDS[kind](bytes.buffer);
  if (delta) for (let i = 1; i < count; i++) values[i] += values[i - 1];
  return values;
}

// The utterances of a set, each with its distinct texts and their alignments with the reference.
class Texts {
  constructor(packed, numbers) {
    this.ids = packed.ids;
    this.refs = packed.refs;
    this.speakers = packed.speakers;
    this.texts = packed.texts;
    this.edits = packed.edits;
    this.items = packed.items; // null: the reference's words
    this.columns = packed.columns; // null: they follow from the edits
    this.starts = numbers(packed.starts);
    const count = packed.edits.length;
    this.sub = new Int32Array(count);
    this.del = new Int32Array(count);
    this.ins = new Int32Array(count);
    this.words = new Int32Array(count);
    packed.edits.forEach((edits, i) => {
      for (const kind of edits) {
        if (kind === "S") this.sub[i]++;
        else if (kind === "D") this.del[i]++;
        else if (kind === "I") this.ins[i]++;
      }
      this.words[i] = edits.length - this.ins[i];
    });
  }

  get size() {
    return this.ids.length;
  }

  errors(text) {
    return this.sub[text] + this.del[text] + this.ins[text];
  }
}

// One row's hypotheses for a set, utterance after utterance, with every term's scores.
class Lists {
  constructor(packed, texts, numbers) {
    Object.assign(this, packed);
    const counts = numbers(packed.counts);
    this.starts = new Int32Array(counts.length + 1);
    counts.forEach((count, u) => (this.starts[u + 1] = this.starts[u] + count));
    this.lengths = numbers(packed.lengths);
    const all = numbers(packed.scores);
    const size = this.lengths.length;
    this.scores = packed.terms.map((_, term) => all.subarray(term * size, (term + 1) * size));
    const local = numbers(packed.texts);
    this.texts = new Int32Array(size); // numbers of the set's texts
    for (let u = 0; u < counts.length; u++) {
      for (let h = this.starts[u]; h < this.starts[u + 1]; h++) this.texts[h] = texts.starts[u] + local[h];
    }
    this.best = packed.best === null ? null : numbers(packed.best).map((text, u) => texts.starts[u] + text);
  }
}

// length^exponent as Python computes it.
class Powers {
  constructor(packed, numbers) {
    this.exponents = packed.exponents;
    this.lengths = numbers(packed.lengths);
    this.values = numbers(packed.values);
  }

  // (by length) for one of the exponents
  of(exponent) {
    const row = this.exponents.indexOf(exponent);
    const table = new Float64Array(this.lengths[this.lengths.length - 1] + 1).fill(NaN);
    this.lengths.forEach((length, i) => (table[length] = this.values[row * this.lengths.length + i]));
    return table;
  }
}

// Everything, unpacked when it is first asked for.
class Run {
  constructor(value) {
    this.value = value;
    this.rows = value.rows;
    this.powers = new Powers(value.powers, value.numbers);
    this.cache = new Map();
  }

  row(key) {
    return this.rows.find((row) => row.key === key);
  }

  remembered(key, make) {
    if (!this.cache.has(key)) this.cache.set(key, make());
    return this.cache.get(key);
  }

  texts(set) {
    return this.remembered(`texts ${set}`, () => new Texts(this.value.texts[set], this.value.numbers));
  }

  keys(set) {
    return Object.keys(this.value.lists[set] || {});
  }

  lists(set, key) {
    const packed = (this.value.lists[set] || {})[key];
    if (!packed) return null;
    return this.remembered(`lists ${set} ${key}`, () => new Lists(packed, this.texts(set), this.value.numbers));
  }

  // What a row says of each utterance at its tuned scales: the search's own choice where it was decoded.
  tuned(set, key) {
    const lists = this.lists(set, key);
    if (!lists) return null;
    return this.remembered(`tuned ${set} ${key}`, () => lists.best || chosenTexts(lists, rank(lists, tunedSetting(lists), this.powers)));
  }

  surface(key, kind) {
    const packed = (this.value.surfaces[key] || {})[kind];
    if (!packed) return null;
    return this.remembered(`${kind} ${key}`, () => {
      const errors = this.value.numbers(packed.errors);
      const words = typeof packed.words === "number" ? null : this.value.numbers(packed.words);
      const wer = Float64Array.from(errors, (count, i) => percent(count, words ? words[i] : packed.words));
      const { trials, chosen, converged } = this.value.surfaces[key];
      return { names: packed.names, axes: packed.axes, wer, trials, chosen, converged };
    });
  }
}
