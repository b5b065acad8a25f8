"""pyproject.toml declares every package that fewer imports; others are there only by chance."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

from tests.docs.pages import ROOT
from tests.install.check import normal, oldest_versions


def test_every_import_is_of_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional, names = project["optional-dependencies"], ("hf", "datasets", "demo", "tensorboard", "ray")
    extras = [line for name in names for line in optional[name]]
    declared = {normal(re.split(r"[<>=]", line)[0]) for line in [*project["dependencies"], *extras]}
    distributions = {**importlib.metadata.packages_distributions(), "pydantic_core": ["pydantic"]}  # its own core
    for path in sorted((ROOT / "src").rglob("*.py")):
        for module in imports(path) - set(sys.stdlib_module_names) - {"fewer"}:
            names = {normal(name) for name in distributions.get(module, [module])}
            assert names & declared, f"{path.relative_to(ROOT)} imports {module}, which pyproject.toml does not declare"


def test_the_oldest_versions_are_the_lower_bounds_but_for_torch() -> None:
    oldest = oldest_versions()
    assert {"numpy==2.0", "torch==2.13.0"} <= set(oldest)
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in oldest), oldest


def imports(path: Path) -> set[str]:
    """Top-level names of the modules that a file imports, at its top or inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found
