"""The internal language model: estimated, stored, measured."""
