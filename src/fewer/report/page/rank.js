// Ranking N-best lists by other scales, to the bit as `Hypothesis.rescored` does it in Python.

// The scales, as multiplied, and the length policy that a list was made with.
function tunedSetting(lists) {
  return { scales: [...lists.scales], exponent: lists.exponent, reward: lists.reward };
}

// For each utterance the hypothesis with the highest score, of equals the first.
function rank(lists, setting, powers) {
  const { starts, lengths, scores } = lists;
  const power = powers.of(setting.exponent);
  const chosen = new Int32Array(starts.length - 1);
  for (let u = 0; u < chosen.length; u++) {
    let best = -Infinity;
    chosen[u] = starts[u];
    for (let h = starts[u]; h < starts[u + 1]; h++) {
      const score = rescored(scores, setting, lengths[h], power, h);
      if (score > best) {
        best = score;
        chosen[u] = h;
      }
    }
  }
  return chosen;
}

function rescored(scores, { scales, reward }, length, power, h) {
  let total = 0.0;
  for (let term = 0; term < scales.length; term++) total += scales[term] * scores[term][h];
  return (total + reward * length) / power[length];
}

function chosenTexts(lists, chosen) {
  return chosen.map((h) => lists.texts[h]);
}

// Errors of a whole set when each utterance has the given text.
function corpus(texts, chosen) {
  const sum = { sub: 0, del: 0, ins: 0, errors: 0, words: 0, wrong: 0, utterances: chosen.length };
  for (const text of chosen) {
    const errors = texts.errors(text);
    sum.sub += texts.sub[text];
    sum.del += texts.del[text];
    sum.ins += texts.ins[text];
    sum.errors += errors;
    sum.words += texts.words[text];
    sum.wrong += errors > 0 ? 1 : 0;
  }
  sum.wer = percent(sum.errors, sum.words);
  return sum;
}

function percent(errors, words) {
  if (words) return (100 * errors) / words;
  return errors ? Infinity : 0;
}

// Two decimals, rounded as Python's format does: a tie, which only an odd number of eighths can be, goes to even.
function twoDecimals(value) {
  if ((value * 8) % 2 !== 1) return value.toFixed(2);
  const below = Math.floor(value * 100);
  return ((below % 2 === 0 ? below : below + 1) / 100).toFixed(2);
}
