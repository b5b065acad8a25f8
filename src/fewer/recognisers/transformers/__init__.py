"""Encoder-decoder recognisers of the transformers library."""
