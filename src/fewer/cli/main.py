"""The command line: one small module of `fewer.cli` for each verb.

Command modules import what is heavy inside their function, so that `fewer --help` answers at once, and only the
command that is asked for is imported.
"""

import functools
import importlib
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import typer

from fewer.cli import COMMANDS, RESUMED
from fewer.cli.methods import MethodsCommand
from fewer.compute.bfloat16 import limit_onednn
from fewer.config import printable, shortened
from fewer.errors import FewerError, is_out_of_memory
from fewer.files import stop_by, unwritable
from fewer.progress import say, show_progress

STOPPED, TERMINATED, BUG = 130, 143, 70  # exit codes: Ctrl-C, SIGTERM, an error that nobody foresaw (EX_SOFTWARE)
LONGEST_LINE = 2000  # characters of a message
app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Fewer word errors from text alone: AED speech recognition with an external language model added "
    "and the internal one subtracted.",
)


def announced(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which first says that it is loading: importing torch takes seconds."""

    @functools.wraps(command)
    def call(*arguments: Any, **options: Any) -> None:
        if "torch" not in sys.modules and os.environ.get("RANK", "0") == "0":
            say("loading…")
        command(*arguments, **options)

    return call


for verb in [verb for verb in COMMANDS if verb in sys.argv[1:2]] or COMMANDS:
    kind = MethodsCommand if verb in ("ilm", "adapt") else None
    command = importlib.import_module(f"fewer.cli.{verb.replace('-', '_')}").command
    app.command(verb, cls=kind)(announced(command))


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Show the version and exit.")
) -> None:
    show_progress()
    context.call_on_close(lambda: show_progress(False))
    if version:
        from fewer.version import __version__

        print(f"fewer {__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point: errors meant for the user come as one message and exit code 1."""
    limit_onednn()
    signal.signal(signal.SIGTERM, lambda *_: stop_by(SystemExit(TERMINATED)))
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, or a caller's own
        signal.signal(signal.SIGINT, lambda *_: stop_by(KeyboardInterrupt()))
    try:
        app()
    except FewerError as error:
        lines = [shortened(printable(line), LONGEST_LINE) for line in str(error).splitlines()]
        print("fewer: " + "\n".join(lines), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:  # typer lets it through only before it has begun
        _stop(STOPPED)
    except SystemExit as ended:
        if isinstance(ended.code, int) and ended.code in (STOPPED, TERMINATED):
            _stop(ended.code)
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if (problem := unwritable(error)) is None:
            report_bug(error)
        print(f"fewer: {problem}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        if not is_out_of_memory(error):
            report_bug(error)
        print("fewer: out of memory; use a smaller model, beam or batch, or a larger machine", file=sys.stderr)
        sys.exit(1)


def _stop(code: int) -> NoReturn:
    """After Ctrl-C or SIGTERM; temporary files, locks and child processes were cleaned up on the way here."""
    goes_on = "; the same command goes on where it was" if sys.argv[1:2] and sys.argv[1] in RESUMED else ""
    print(f"fewer: stopped{goes_on}", file=sys.stderr)
    sys.exit(code)


def report_bug(error: Exception) -> NoReturn:
    """An error that nobody foresaw: one short message, the traceback in a file, and an exit code of its own."""
    text = "".join(traceback.format_exception(error))
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    try:
        with tempfile.NamedTemporaryFile("w", prefix="fewer-", suffix=".txt", delete=False, encoding="utf-8") as stream:
            stream.write(f"fewer {' '.join(sys.argv[1:])}\n\n{text}")
        where = f"the traceback is in {stream.name}; please report it"
    except OSError:
        where = f"please report it with this traceback:\n{text}"
    print(f"fewer: this is a bug in fewer: {what}\n{where}", file=sys.stderr)
    sys.exit(BUG)
