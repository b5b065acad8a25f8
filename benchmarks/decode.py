"""CPU-seconds of the decoder part of a beam search, alone and fused with an LSTM LM and a Mini-LSTM ILM.

    python benchmarks/decode.py [--paper] [--quick]     # --paper: the cost of an ILM at the paper's full sizes as well
    python benchmarks/decode.py --model MODEL --dev MANIFEST [--lm LM] [--scale 0.4]     # only its parents

The recogniser of train_step.py; 8 utterances × 600 frames, beam 12, 30 steps, the end label suppressed. The last line
is JSON with `aed_decoder_cpu_seconds`, `fused_decoder_cpu_seconds`, `peak_share` and the peak, `gflops` (one thread).

Recurrent products are taken once for each parent, a hypothesis that the beam's rows continue, so the time depends on
how many parents there are. `parents` is their share of the rows; `--model` gives that of a trained model's search.
`--distinct` makes every row its own parent, the worst case.
"""

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from unittest import mock

import torch
from machine import PEAK, QUICK, cpu_seconds, matmul_peak, scaled
from train_step import CONFIG

from fewer.data.manifest import Manifest
from fewer.decoding.encoding import encode_set
from fewer.decoding.system import load_system
from fewer.ilm.methods.mini_lstm import MiniLstmContext
from fewer.ilm.methods.seq_avg import SequenceMeanContext
from fewer.models.aed import AED, AedConfig
from fewer.models.aed_scorer import AedScorer
from fewer.models.context import ConstantContext, Context, ZeroContext
from fewer.models.decoder import DecoderConfig, DecoderLikeLm, DecoderLikeLmConfig
from fewer.models.encoded import Encoded
from fewer.models.encoder import EncoderConfig
from fewer.models.lm import LmScorer, LstmLm, LstmLmConfig, TransformerLm, TransformerLmConfig
from fewer.models.tree import Parents, select_rows
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.rules import Suppression

BEAM, STEPS = 12, 30
MINI = 50  # units of the Mini-LSTM
ROUNDS = 9  # of the comparison at the paper's sizes; the least time of each counts


def search(scorers: list, scales: dict[str, float], encoded: Encoded, steps: int = STEPS) -> None:
    """A search of exactly `steps` labels."""
    never_end = torch.zeros(scorers[0].vocab_size, dtype=torch.bool)
    never_end[0] = True
    fusion = Fusion(scorers, scales, rules=[Suppression(never_end)])
    beam_search(fusion, encoded, torch.full((len(encoded),), steps), SearchOptions(beam=BEAM))


@contextmanager
def counted_parents() -> Iterator[list[tuple[int, int]]]:
    """Of every step of the searches inside: how many different rows are continued, and by how many."""
    counts: list[tuple[int, int]] = []
    reorder = Fusion.reorder

    def counting(fusion: Fusion, states: list, rows: torch.Tensor) -> list:
        counts.append((len(rows.unique()), rows.numel()))
        return reorder(fusion, states, rows)

    with mock.patch.object(Fusion, "reorder", counting):
        yield counts


@contextmanager
def distinct_parents() -> Iterator[None]:
    """Searches inside take every row for the only one that continues its parent."""

    def select(parents: Parents, rows: torch.Tensor) -> Parents:
        return Parents(select_rows(parents.tree, rows))

    with mock.patch.object(Parents, "select_rows", select):
        yield


def share(counts: list[tuple[int, int]]) -> float:
    """Of parents among rows."""
    parents, rows = (sum(column) for column in zip(*counts, strict=True))
    return parents / rows


def trained(model: str, manifest: str, lm: str | None, scale: float, utterances: int = 64) -> float:
    """The share of parents in a search of a trained model."""
    system = load_system(model, lm)
    fusion = system.fusion({} if lm is None else {"lm": scale})
    with counted_parents() as counts:
        for batch in encode_set(system, Manifest(manifest)):
            limits = system.recogniser.max_lengths(batch.encoded)
            beam_search(fusion, batch.encoded, limits, SearchOptions(beam=BEAM))
            utterances -= len(batch.utterances)
            if utterances <= 0:
                break
    return share(counts)


def products(config: AedConfig, utterances: int, frames: int, terms: int, parents: float, lm: LstmLm | None) -> float:
    """Floating-point operations of all products that the search really computes, what is folded away not counted.

    parents: their share of the rows
    """
    decoder, d_enc = config.decoder, config.encoder.output
    projected = 4 * decoder.size + decoder.readout  # what a context adds to the gates and to the readout
    once = utterances * frames * d_enc * (projected + config.energy + 1)
    recurrent = terms * 4 * decoder.size**2
    row = terms * decoder.size * decoder.readout + terms * decoder.readout / 2 * config.vocab_size
    row += decoder.size * config.energy + frames * (config.energy + projected)  # attention
    if lm is not None:  # its label side is a table; the Mini-LSTM's linear map is folded
        recurrent += 4 * lm.config.size**2
        row += lm.config.size * lm.config.vocab_size
        row += 4 * MINI * (decoder.embedding + MINI) + MINI * projected
    return 2 * (once + utterances * BEAM * STEPS * (parents * recurrent + row))


def floor(
    config: AedConfig, utterances: int, frames: int, steps: int, parents: float, repeats: int
) -> tuple[float, float]:
    """CPU-seconds of what the search alone must compute, by itself: all products, and the sigmoids of attention."""
    decoder, rows, d_enc = config.decoder, utterances * BEAM, config.encoder.output
    projected = 4 * decoder.size + decoder.readout
    factors = [
        (torch.randn(rows, inputs), torch.randn(inputs, outputs))
        for rows, inputs, outputs in (
            (round(parents * rows), decoder.size, 4 * decoder.size),
            (rows, decoder.size, config.energy),
            (rows, decoder.size, decoder.readout),
            (rows, decoder.readout // 2, config.vocab_size),
        )
    ]
    factors.append((torch.rand(utterances, BEAM, frames), torch.randn(utterances, frames, projected)))
    states, weights = torch.randn(utterances * frames, d_enc), torch.randn(d_enc, projected + config.energy)
    products = steps * cpu_seconds(lambda: [a @ b for a, b in factors], repeats)
    products += cpu_seconds(lambda: states @ weights, repeats)
    inner = torch.randn(BEAM, frames, config.energy)
    return products, steps * utterances * cpu_seconds(lambda: inner.sigmoid_(), repeats)


def small(
    utterances: int = 8, frames: int = 600, steps: int = STEPS, repeats: int = 5, distinct: bool = False
) -> dict[str, float]:
    torch.manual_seed(0)
    aed = AED(CONFIG).eval()
    features, lengths = torch.randn(utterances, frames, 40), torch.full((utterances,), frames)
    with torch.inference_mode():
        encoded = aed.encode(features, lengths)
        encoder = cpu_seconds(lambda: aed.encode(features, lengths), min(repeats, 3))
    lm = LstmLm(LstmLmConfig(vocab_size=1000, embedding=256, size=512)).eval()
    mini = MiniLstmContext(256, CONFIG.encoder.output, MINI)
    plain = [AedScorer(aed)]
    fused = [AedScorer(aed, {"ilm": mini}), LmScorer(lm)]
    scales = {"aed": 1.0, "lm": 0.4, "ilm": -0.3}
    peak = matmul_peak(repeats=4 * repeats)
    result = {"gflops": peak / 1e9}
    print(f"matmul peak    {peak / 1e9:.1f} GFLOP per CPU-second")
    parents = {}
    for name, scorers, terms, read in (("aed", plain, 1, None), ("fused", fused, 2, lm)):
        used = {term: scales[term] for scorer in scorers for term in scorer.terms}
        with counted_parents() as counts:
            search(scorers, used, encoded, steps)
        parents[name] = 1.0 if distinct else share(counts)
        seconds = cpu_seconds(lambda s=scorers, u=used: search(s, u, encoded, steps), repeats)
        operations = products(CONFIG, utterances, encoded.states.shape[1], terms, parents[name], read)
        of_peak = operations / seconds / peak
        print(
            f"{name:6} decoder {seconds:.3f} CPU-s, {operations / 1e9:.1f} GFLOP, {of_peak:.2f} of the matmul peak; "
            f"{scaled(seconds, peak):.3f} CPU-s where that is {PEAK / 1e9:.0f} GFLOP per CPU-second; "
            f"parents {parents[name]:.2f} of the rows"
        )
        result |= {f"{name}_decoder_cpu_seconds": seconds, "peak_share": of_peak, "parents": parents[name]}
    alone = floor(CONFIG, utterances, encoded.states.shape[1], steps, parents["aed"], 4 * repeats)
    print(f"of aed decoder {alone[0]:.3f} CPU-s are products and {alone[1]:.3f} sigmoids of attention, each by itself")
    print(f"encoder        {encoder:.3f} CPU-s")
    return result


def paper(name: str, layers: int, vocab_size: int, decoder_state: str, steps: int = 8) -> None:
    """What each ILM method costs on top of shallow fusion at the paper's sizes (random weights, one utterance)."""
    torch.manual_seed(0)
    config = AedConfig(
        vocab_size=vocab_size,
        encoder=EncoderConfig(layers=0, filters=0, features=2048),
        decoder=DecoderConfig(state=decoder_state),  # type: ignore[arg-type]
    )
    aed = AED(config).eval()
    encoded = Encoded(torch.randn(1, 200, 2048), torch.tensor([200]))
    lm = LmScorer(TransformerLm(TransformerLmConfig(vocab_size=vocab_size, layers=layers)).eval())
    contexts: dict[str, Context] = {
        "zero": ZeroContext(2048),
        "enc_avg/ctx_avg": ConstantContext(torch.randn(2048)),
        "seq_avg": SequenceMeanContext(2048),
        "mini_lstm": MiniLstmContext(621, 2048),
    }
    decoder_like = DecoderLikeLm(DecoderLikeLmConfig(vocab_size=vocab_size, **config.decoder.model_dump())).eval()
    systems = {"shallow fusion": [AedScorer(aed), lm]}
    systems |= {method: [AedScorer(aed, {"ilm": context}), lm] for method, context in contexts.items()}
    systems["decoder_like"] = [AedScorer(aed), LmScorer(decoder_like, "ilm"), lm]
    density = LstmLm(LstmLmConfig(vocab_size=vocab_size)).eval()
    systems["dr"] = [AedScorer(aed), LmScorer(density, "ilm"), lm]
    best = dict.fromkeys(systems, float("inf"))
    for _ in range(ROUNDS):  # in turn, so that noise hits all alike
        for method, scorers in systems.items():
            scales = {term: 0.1 for scorer in scorers for term in scorer.terms}
            began = time.process_time()
            search(scorers, scales, encoded, steps)
            best[method] = min(best[method], time.process_time() - began)
    print(f"{name}: {layers}-layer LM, V = {vocab_size}, beam {BEAM}, {steps} steps")
    for method, seconds in best.items():
        print(f"  {method:16} {seconds:7.3f} CPU-s  {seconds / best['shallow fusion'] - 1:+.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--quick", action="store_true", help=QUICK)
    parser.add_argument("--distinct", action="store_true", help="every row its own parent, one thread")
    parser.add_argument("--model", help="a trained model, whose parents are counted")
    parser.add_argument("--dev", help="the set that it decodes, the first 64 utterances of it")
    parser.add_argument("--lm", help="an LM that it decodes with")
    parser.add_argument("--scale", type=float, default=0.4, help="of the LM")
    arguments = parser.parse_args()
    if arguments.quick:
        small(utterances=1, frames=60, steps=2, repeats=1)
        return
    if arguments.model:
        found = trained(arguments.model, arguments.dev, arguments.lm, arguments.scale)
        print(f"parents {found:.2f} of the rows")
        return
    if arguments.paper:
        torch.set_num_threads(1)
        paper("LibriSpeech", 24, 10025, "lstm")
        paper("Switchboard", 6, 534, "zoneout_lstm")
    with distinct_parents() if arguments.distinct else nullcontext():
        if not arguments.distinct:
            torch.set_num_threads(2)
            print("two threads")
            small()
        torch.set_num_threads(1)
        print("one thread")
        result = small(distinct=arguments.distinct)
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
