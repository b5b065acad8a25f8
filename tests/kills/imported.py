"""Imports all of fewer: commands that are killed are forks of a process that has done this."""

import os
import pkgutil

os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork

import lhotse  # noqa: F401
import tokenizers  # noqa: F401
import torch._dynamo  # noqa: F401 (by the first optimiser)
import transformers  # noqa: F401

import fewer

for module in pkgutil.walk_packages(fewer.__path__, "fewer."):
    if not module.name.endswith("__main__"):
        __import__(module.name)
