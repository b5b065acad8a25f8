"""Whether a text is clearly of another kind than what a language model was made of.

Mixed with the internal LM, an n-gram LM does little harm to what it does not know. Where it knows next to nothing, what
it says is of no use either: if it finds a hypothesis hardly more likely than any other sequence of labels, the LM is
left out. English text of one domain under an LM of another has 60 to 80 % of the surprise of labels drawn by chance; in
English under an LM of a few hundred fixed phrases every label surprises as much as one drawn by chance.
"""

import math
from collections.abc import Sequence

import torch

from fewer.models.lm import LanguageModel
from fewer.models.ngram import NGram

CHANCE = 0.85  # of the surprise of labels drawn by chance: log V each
FEWEST = 12  # labels that tell the kind of a text


def is_foreign(lm: LanguageModel | None, tokens: Sequence[int]) -> bool:
    """Whether a hypothesis is of another kind than the LM's text; False for LMs that are no n-grams of labels."""
    if not isinstance(lm, NGram) or len(tokens) < FEWEST:
        return False
    labels = torch.tensor([tokens], device=lm.labels.device)
    return float(lm.score(labels).mean()) < -CHANCE * math.log(lm.vocab_size)
