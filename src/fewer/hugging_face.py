"""Loading what Hugging Face's libraries read.

Every `from_pretrained` is called with trust_remote_code=False, so that no Python file of a model folder runs, and
weights with use_safetensors=True, so that nothing is unpickled.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fewer.config import shortened
from fewer.errors import FewerError, is_out_of_memory

PANIC = "PanicException"  # of libraries in Rust, which is no `Exception`
MOST_LAYERS, LARGEST = 1000, 1 << 31  # layers, and any whole number, that a configuration may name
LONGEST = 500  # characters of what a library says


@contextmanager
def loading(source: str | Path, problem: str) -> Iterator[None]:
    """Tell the user why a folder, or a name on the hub, could not be loaded. problem: how the message begins."""
    try:
        yield
    except FewerError:
        raise
    except BaseException as error:  # damaged files lead to whatever the libraries happen to raise
        if is_out_of_memory(error) or not (isinstance(error, Exception) or type(error).__name__ == PANIC):
            raise
        why = " ".join((str(error) if isinstance(error, OSError | ValueError) else repr(error)).split())
        asked = "; was it downloaded whole?" if Path(source).is_dir() else ""
        raise FewerError(f"{problem}: {shortened(why.rstrip('.'), LONGEST)}{asked}") from error


def check_sizes(config: Mapping[str, Any], where: str | Path) -> None:
    """An error if a model's configuration describes what would never be built. where: the file, for the message."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            check_sizes({str(name): inner for name, inner in value.items()}, where)
        most = MOST_LAYERS if key.endswith(("layers", "n_layer")) else LARGEST
        if isinstance(value, int) and abs(value) > most:
            raise FewerError(
                f"{where}: {shortened(key, 60)} is {shortened(str(value), 40)}, but at most {most} is allowed"
            )
