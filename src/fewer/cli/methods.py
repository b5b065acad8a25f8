"""Help that lists the methods of estimating an internal LM, as the registry has them."""

from typing import Any

from typer.core import TyperCommand


class MethodsCommand(TyperCommand):
    """A command with an option --method; the methods are looked up when help is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from fewer.ilm.registry import all_methods

        lines = (f"{method.name}: {method.description}" for method in all_methods().values())
        self.epilog = "\n\n".join(["Methods:", *lines])
        super().format_help(ctx, formatter)
