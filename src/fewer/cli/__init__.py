"""The commands: a module for each, whose function `command` parses, calls what `fewer` offers to Python, and prints."""

import signal

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


def start() -> None:
    """Entry point. Ctrl-C ends a command that is still being imported without a traceback."""
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored
    if heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fewer.cli.main import main

    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
