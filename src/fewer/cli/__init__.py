"""The commands: a module for each, whose function `command` parses, calls what `fewer` offers to Python, and prints."""

import atexit
import gc
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
OBJECTS = 50_000  # made since Python last looked for garbage, when it looks again; its default is 700


def start() -> None:
    """Entry point. Ctrl-C ends a command that is still being imported without a traceback."""
    collect_rarely()
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored
    if heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fewer.cli.main import main

    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


def collect_rarely() -> None:
    """Look for cyclic garbage more rarely, and not at all when the process ends.

    torch has so many objects that Python spends a quarter of the time of a short command on looking through them:
    while it imports torch, and when it ends.
    """
    gc.set_threshold(OBJECTS)
    atexit.register(gc.freeze)
