"""The one exception that speaks to the user: what is wrong, where, and what to do."""


class FewerError(Exception):
    """A problem the user can mend. The command line prints its message without a traceback."""
