"""Loading what Hugging Face's libraries read.

Every `from_pretrained` is called with trust_remote_code=False, so that no Python file of a model folder runs, and
weights with use_safetensors=True, so that nothing is unpickled.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fewer.config import shortened
from fewer.errors import FewerError

PANIC = "PanicException"  # of libraries in Rust, which is no `Exception`
LONGEST = 500  # characters of what a library says


@contextmanager
def loading(source: str | Path, problem: str) -> Iterator[None]:
    """Tell the user why a folder, or a name on the hub, could not be loaded. problem: how the message begins."""
    try:
        yield
    except FewerError:
        raise
    except BaseException as error:  # damaged files lead to whatever the libraries happen to raise
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        why = " ".join((str(error) if isinstance(error, OSError | ValueError) else repr(error)).split())
        asked = "; was it downloaded whole?" if Path(source).is_dir() else ""
        raise FewerError(f"{problem}: {shortened(why.rstrip('.'), LONGEST)}{asked}") from error
