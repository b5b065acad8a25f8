"""The version of fewer, here so that every package can name it."""

__version__ = "0.2.0.dev0"
