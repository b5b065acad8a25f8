"""The commands: a module for each, whose function `command` parses, calls what `fewer` offers to Python, and prints."""

COMMANDS: list[str] = [
    "demo",
    "adapt",
    "run",
    "prepare",
    "tokenizer",
    "train",
    "import-returnn",
    "ngram",
    "ilm",
    "decode",
    "merge",
    "tune",
    "transcribe",
    "rescore",
    "score",
    "perplexity",
    "report",
]
RESUMED = ("demo", "adapt", "run", "train", "ilm", "decode", "tune")  # stopped, the same command goes on where it was
