"""The demo's own corpus: sentences from two grammars, spoken by espeak-ng voices in noisy rooms."""
