"""The one exception that speaks to the user: what is wrong, where, and what to do."""

import re

LONG = re.compile(r"\S{400,}")  # what a damaged file may hold where a name or a number should be


class FewerError(Exception):
    """A problem the user can mend. The command line prints its message without a traceback.

    Very long words of the message, which are quoted from files, are cut.
    """

    def __init__(self, message: str):
        super().__init__(LONG.sub(lambda found: f"{found[0][:200]}…{found[0][-100:]}", message))
