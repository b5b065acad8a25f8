"""A reference in plain NumPy, float64, for what golden numbers do not cover: feed-forward and zoneout decoders, their
internal LMs, and search with them. Written from SPEC's equations, one utterance and one label at a time, on parameters
with the toolkit's names and layouts, which the product never sees: it gets them through `fewer.store.returnn`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]
FEATURES, FILTERS, LAYERS, UNITS, ENERGY, EMBEDDING, READOUT, LABELS, MINI = 40, 3, 2, 5, 8, 6, 10, 13, 4
CONTEXT = 2 * UNITS
STATES = ("lstm", "zoneout_lstm", "feed_forward")
ZONEOUT = {"cell": 0.15, "output": 0.05}


def random_arrays(state: str, seed: int = 0, history: int = 3, units: int = 7) -> Arrays:
    """Parameters of a recogniser, of a Mini-LSTM for it, and of an LSTM LM (lm:…), biases included."""
    rng = np.random.default_rng((seed, STATES.index(state)))
    size = ENERGY if state == "feed_forward" else units
    shapes: dict[str, tuple[int, ...]] = {
        "conv0/W": (3, 3, 1, FILTERS),
        "conv0/bias": (FILTERS,),
        "conv1/W": (3, 3, FILTERS, FILTERS),
        "conv1/bias": (FILTERS,),
        "enc_ctx/W": (CONTEXT, ENERGY),
        "enc_ctx/b": (ENERGY,),
        "inv_fertility/W": (CONTEXT, 1),
        "ctc/W": (CONTEXT, LABELS + 1),
        "ctc/b": (LABELS + 1,),
        "output/rec/weight_feedback/W": (1, ENERGY),
        "output/rec/energy/W": (ENERGY, 1),
        "output/rec/target_embed/W": (LABELS, EMBEDDING),
        "output/rec/readout_in/W": (size + EMBEDDING + CONTEXT, READOUT),
        "output/rec/readout_in/b": (READOUT,),
        "output/rec/output_prob/W": (READOUT // 2, LABELS),
        "output/rec/output_prob/b": (LABELS,),
        "mini/rec/W": (EMBEDDING, 4 * MINI),
        "mini/rec/W_re": (MINI, 4 * MINI),
        "mini/rec/b": (4 * MINI,),
        "mini_att/W": (MINI, CONTEXT),
        "mini_att/b": (CONTEXT,),
        "lm:input/W": (LABELS, 5),
        "lm:input/b": (5,),
        "lm:lstm0/rec/W": (5, 24),
        "lm:lstm0/rec/W_re": (6, 24),
        "lm:lstm0/rec/b": (24,),
        "lm:output/W": (6, LABELS),
        "lm:output/b": (LABELS,),
    }
    for layer in range(LAYERS):
        inputs = CONTEXT if layer else FEATURES // 4 * FILTERS
        for direction in ("fw", "bw"):
            shapes |= {
                f"lstm{layer}_{direction}/rec/W": (inputs, 4 * UNITS),
                f"lstm{layer}_{direction}/rec/W_re": (UNITS, 4 * UNITS),
                f"lstm{layer}_{direction}/rec/b": (4 * UNITS,),
            }
    if state == "feed_forward":
        shapes |= {"output/rec/FF_0/W": (history * EMBEDDING + CONTEXT, size), "output/rec/FF_0/b": (size,)}
    else:
        shapes |= {
            "output/rec/s/rec/lstm_cell/kernel": (EMBEDDING + CONTEXT + size, 4 * size),
            "output/rec/s/rec/lstm_cell/bias": (4 * size,),
            "output/rec/s_transformed/W": (size, ENERGY),
        }
    return {name: rng.normal(0, 0.6, shape).astype(np.float32) for name, shape in shapes.items()}


def network(state: str) -> dict[str, Any]:
    """What a configuration says of such a model."""
    unit: dict[str, Any] = {"lstm": "LSTMBlock", "zoneout_lstm": "zoneoutlstm"}
    s = {"class": "rnn_cell", "unit": unit.get(state)}
    if state == "zoneout_lstm":
        s["unit_opts"] = {f"zoneout_factor_{name}": value for name, value in ZONEOUT.items()}
    return {"lstm0_pool": {"pool_size": (3,)}, "output": {"unit": {} if state == "feed_forward" else {"s": s}}}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max()
    return shifted - np.log(np.exp(shifted).sum())


def native_lstm(
    p: Arrays, name: str, inputs: np.ndarray, h: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gates in the order cell, input, forget, output; no forget bias."""
    z, i, f, o = np.split(inputs @ p[f"{name}/W"] + h @ p[f"{name}/W_re"] + p[f"{name}/b"], 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(z)
    return sigmoid(o) * np.tanh(c), c


class State(NamedTuple):
    """Before label i."""

    h: np.ndarray  # recurrent state of the decoder's LSTM, zoned
    c: np.ndarray
    labels: tuple[int, ...]  # y_1 … y_{i-1}
    context: np.ndarray  # c_{i-1}
    says: Any  # what the context remembers


Says = Callable[[Any, np.ndarray, np.ndarray], tuple[np.ndarray, Any]]  # memory, s_i, embedding -> c_i, memory


class Reference:
    """The decoder of SPEC §1 under any context of SPEC §4."""

    def __init__(self, arrays: Arrays, state: str):
        self.p, self.state = {name: value.astype(np.float64) for name, value in arrays.items()}, state
        self.embedding, self.size = arrays["output/rec/target_embed/W"].shape[1], arrays["enc_ctx/W"].shape[0]
        self.history = 0
        if state == "feed_forward":
            self.history = (len(arrays["output/rec/FF_0/W"]) - self.size) // self.embedding
        self.units = arrays["output/rec/readout_in/W"].shape[0] - self.embedding - self.size

    def start(self, first: np.ndarray | None = None) -> State:
        """first: c_0, if it is not zero."""
        zeros = np.zeros(self.units)
        return State(zeros, zeros, (), np.zeros(self.size) if first is None else first, None)

    def embed(self, labels: tuple[int, ...], back: int) -> np.ndarray:
        """The embedding of y_{i-back}, zero before the first label."""
        return self.p["output/rec/target_embed/W"][labels[-back]] if back <= len(labels) else np.zeros(self.embedding)

    def step(self, state: State, context: Says) -> tuple[np.ndarray, State]:
        """log P of every label, and the state with c_i in it, to which a label is then added."""
        p, embedded = self.p, self.embed(state.labels, 1)
        h, c = state.h, state.c
        if self.state == "feed_forward":
            seen = [self.embed(state.labels, back) for back in range(1, self.history + 1)]
            s = np.tanh(np.concatenate([*seen, state.context]) @ p["output/rec/FF_0/W"] + p["output/rec/FF_0/b"])
        else:
            kernel, bias = (p[f"output/rec/s/rec/lstm_cell/{name}"] for name in ("kernel", "bias"))
            i, j, f, o = np.split(np.concatenate([embedded, state.context, h]) @ kernel + bias, 4)
            new = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
            s = sigmoid(o) * np.tanh(new)
            keep_c, keep_h = (ZONEOUT["cell"], ZONEOUT["output"]) if self.state == "zoneout_lstm" else (0.0, 0.0)
            h, c = keep_h * h + (1 - keep_h) * s, keep_c * c + (1 - keep_c) * new
        vector, says = context(state.says, s, embedded)
        readout = np.concatenate([s, embedded, vector]) @ p["output/rec/readout_in/W"] + p["output/rec/readout_in/b"]
        maxout = np.maximum(readout[0::2], readout[1::2])
        logits = maxout @ p["output/rec/output_prob/W"] + p["output/rec/output_prob/b"]
        return log_softmax(logits), State(h, c, state.labels, vector, says)

    def attention(self, states: np.ndarray) -> Says:
        """c_i = Σ_t α_{i,t} h_t over the utterance's encoder states (T, D_enc)."""
        p = self.p
        keys = states @ p["enc_ctx/W"] + p["enc_ctx/b"]
        fertility = sigmoid(states @ p["inv_fertility/W"])[:, 0]

        def says(accumulated: Any, s: np.ndarray, embedded: np.ndarray) -> tuple[np.ndarray, Any]:
            accumulated = np.zeros(len(states)) if accumulated is None else accumulated
            query = s if self.state == "feed_forward" else s @ p["output/rec/s_transformed/W"]
            location = accumulated[:, None] @ p["output/rec/weight_feedback/W"]
            energies = (np.tanh(keys + query + location) @ p["output/rec/energy/W"])[:, 0]
            weights = np.exp(log_softmax(energies))
            return weights @ states, accumulated + 0.5 * weights * fertility

        return says

    def mini_lstm(self) -> Says:
        """ĉ_i = linear(LSTM(y_1 … y_{i-1}))."""

        def says(memory: Any, s: np.ndarray, embedded: np.ndarray) -> tuple[np.ndarray, Any]:
            memory = memory or (np.zeros(MINI), np.zeros(MINI))
            memory = native_lstm(self.p, "mini/rec", embedded, *memory)
            return memory[0] @ self.p["mini_att/W"] + self.p["mini_att/b"], memory

        return says

    def context(self, method: str, states: np.ndarray, mean: np.ndarray) -> Says:
        """The recogniser's own, or that of an internal LM. mean: E_D[h] or E_D[c]."""
        if method == "attention":
            return self.attention(states)
        if method == "mini_lstm":
            return self.mini_lstm()
        vector = {"zero": np.zeros(self.size), "mean": mean, "mean_no_first": mean, "seq_avg": states.mean(0)}[method]
        return lambda memory, s, embedded: (vector, memory)

    def teacher_forced(self, method: str, states: np.ndarray, mean: np.ndarray, labels: list[int]) -> np.ndarray:
        """log P of every label at every place. -> (N, V)"""
        context = self.context(method, states, mean)
        state, rows = self.start(mean if method == "mean_no_first" else None), []
        for label in labels:
            log_probs, state = self.step(state, context)
            state = state._replace(labels=(*state.labels, label))
            rows.append(log_probs)
        return np.stack(rows)

    def lm(self, labels: tuple[int, ...]) -> np.ndarray:
        """log P of every label after those, by the LSTM LM; it reads the end label, 0, first."""
        p, h, c = self.p, np.zeros(6), np.zeros(6)
        for label in (0, *labels):
            h, c = native_lstm(p, "lm:lstm0/rec", p["lm:input/W"][label] + p["lm:input/b"], h, c)
        return log_softmax(h @ p["lm:output/W"] + p["lm:output/b"])

    def search(
        self, states: np.ndarray, mean: np.ndarray, ilm: str | None, scales: tuple[float, float], beam: int
    ) -> list[tuple[tuple[int, ...], float]]:
        """SPEC §6 with lists: labels without the end label and score / number of labels, best first.

        An ended hypothesis stays and competes; as many labels as encoder states at most.
        """
        contexts, start = [self.context("attention", states, mean)], [self.start()]
        if ilm is not None:
            contexts.append(self.context(ilm, states, mean))
            start.append(self.start(mean if ilm == "mean_no_first" else None))
        hypotheses: list[tuple[float, int, bool, list[State]]] = [(0.0, 0, False, start)]
        for length in range(1, len(states) + 1):
            candidates = [one for one in hypotheses if one[2]]
            for total, _, ended, old in hypotheses:
                if ended:
                    continue
                steps = [self.step(state, context) for state, context in zip(old, contexts, strict=True)]
                scores = steps[0][0]
                if ilm is not None:
                    scores = scores + scales[0] * self.lm(old[0].labels) - scales[1] * steps[1][0]
                for label in range(LABELS):
                    new = [state._replace(labels=(*state.labels, label)) for _, state in steps]
                    candidates.append((total + scores[label], length, label == 0, new))
            candidates.sort(key=lambda one: -one[0] / one[1])
            hypotheses = candidates[:beam]
            if all(ended for _, _, ended, _ in hypotheses):
                break
        return [(s[0].labels[:-1] if ended else s[0].labels, total / n) for total, n, ended, s in hypotheses]
