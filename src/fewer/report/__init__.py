"""Tables, plots and the page of a run. Called, the package is the command of its name."""

import sys

from fewer.cli import CommandPackage

sys.modules[__name__].__class__ = CommandPackage
