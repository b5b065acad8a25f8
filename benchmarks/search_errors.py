"""Whether errors are the search's or the models': does the reference score better than what the search found?

    python benchmarks/search_errors.py NBEST --model MODEL --manifest MANIFEST [--lm LM] [--ilm ILM] [--utterances 300]

Scores the references of about so many utterances, in batches evenly spread over the set, exactly as the search that
wrote NBEST did. A wrong utterance whose reference scores better is a search error: a wider beam could have found
something better. It also counts words and tells hypotheses that are much shorter or longer than their reference, and
those that lack six words or more, which ended too early or leapt. The last line is JSON.
"""

import argparse
import json

import torch

from fewer.data.manifest import Manifest
from fewer.decoding.encoding import encode_set
from fewer.decoding.system import load_system
from fewer.search.forced import forced_scores
from fewer.search.nbest import Hypothesis, read_header, read_nbest

SHORT = 6  # words that a hypothesis lacks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nbest")
    parser.add_argument("--model", required=True)
    parser.add_argument("--manifest", required=True)
    parser.add_argument("--lm")
    parser.add_argument("--ilm")
    parser.add_argument("--utterances", type=int, default=300)
    args = parser.parse_args()
    torch.set_num_threads(1)
    header = read_header(args.nbest)
    found = {nbest.id: nbest for nbest in read_nbest(args.nbest)}
    system = load_system(args.model, args.lm, args.ilm)
    fusion, tokenizer = system.fusion(header.scales), system.recogniser.tokenizer
    counts = dict.fromkeys(("utterances", "wrong", "search_errors", "unended", "ref_words", "hyp_words"), 0)
    counts |= {"half_as_long": 0, "half_again_as_long": 0, "short": 0, "words_lacking": 0}
    batches = encode_set(system, Manifest(args.manifest))
    for place in range(0, len(batches), max(1, len(found) // args.utterances)):
        batch = batches[place]
        references = [hypothesis(tokenizer, utterance.ref or "") for utterance in batch.utterances]
        scored = forced_scores(fusion, batch.encoded, [[reference] for reference in references])
        for utterance, reference, (scores,) in zip(batch.utterances, references, scored, strict=True):
            best = found[utterance.id].hypotheses[0]
            total = sum(header.scales[term] * value for term, value in scores.items())
            ref, hyp = len((utterance.ref or "").split()), len(best.text.split())
            wrong = best.text != utterance.ref
            counts["utterances"] += 1
            counts["wrong"] += wrong
            counts["search_errors"] += wrong and header.length.score(total, reference.length) > best.score
            counts["unended"] += not best.ended
            counts["ref_words"] += ref
            counts["hyp_words"] += hyp
            counts["half_as_long"] += 2 * hyp <= ref
            counts["half_again_as_long"] += 2 * hyp >= 3 * ref
            counts["short"] += ref - hyp >= SHORT
            counts["words_lacking"] += ref - hyp if ref - hyp >= SHORT else 0
    wrong = max(counts["wrong"], 1)
    print(
        f"{counts['utterances']} utterances, {counts['wrong']} wrong; in {counts['search_errors']} of these "
        f"({100 * counts['search_errors'] / wrong:.1f} %) the reference scores better than what the search found"
    )
    print(json.dumps(counts))


def hypothesis(tokenizer, text: str) -> Hypothesis:  # type: ignore[no-untyped-def]
    """A reference as the search would write it."""
    tokens = tuple(tokenizer.encode(text))
    return Hypothesis(text, tokens, {}, len(tokens) + 1, 0.0)


if __name__ == "__main__":
    main()
