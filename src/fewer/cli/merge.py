"""fewer merge: the parts of a decode."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    out: Annotated[Path, typer.Argument(help="The N-best file that was given to `fewer decode --shard`.")],
) -> None:
    """Put the parts of `fewer decode … OUT --shard i/n` together, when all n are done."""
    import fewer

    print(f"{out}: {len(fewer.merge(out))} utterances")
