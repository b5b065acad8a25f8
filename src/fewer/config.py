"""Configurations: pydantic models read from YAML, with errors that name file and field.

A YAML file of a stranger can do no harm: its size, its depth and what its aliases expand to are limited.
"""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from fewer.errors import FewerError

LARGEST_FILE = 1 << 20  # bytes of a YAML file
DEEPEST = 50  # levels of nesting in it
MOST_NODES = 100_000  # values in it, each alias counted as what it stands for
SHOWN_ERRORS, SHOWN_CHARS = 3, 80  # complaints in a message; characters of a value or a name in a complaint


class Config(BaseModel):
    """Base of every configuration: frozen, and an unknown key is an error. Prepared when it is first used."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


Kind = TypeVar("Kind", bound=BaseModel)
Value = TypeVar("Value")


def parse_config(kind: type[Kind], values: Any, source: str | Path) -> Kind:
    """Validate `values`; every complaint names `source` and the field."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise FewerError(complaints(error, source, kind)) from error


def parse_json(kind: TypeAdapter[Value], text: str | bytes, source: object) -> Value:
    """The value of a JSON text, strictly of this kind; `source` names it in complaints.

    Nesting is limited by the parser, and lone surrogates and text that is not UTF-8 are errors.
    """
    try:
        return kind.validate_json(text, strict=True)
    except ValidationError as error:
        raise FewerError(complaints(error, source)) from error


def complaints(
    error: ValidationError, source: object, kind: type[BaseModel] | None = None, most: int = SHOWN_ERRORS
) -> str:
    """What is wrong with some values, a line for each of the first few fields. kind: helps with misspelt keys."""
    return first_of([f"{source}: {complaint(item, kind)}" for item in error.errors()], most)


def first_of(lines: Sequence[str], most: int = SHOWN_ERRORS - 1) -> str:
    """The first lines of a message, and how many more there would be."""
    more = f" … and {len(lines) - most} more" if len(lines) > most else ""
    return "\n".join(lines[:most]) + more


def complaint(item: Any, kind: type[BaseModel] | None = None) -> str:
    """One of pydantic's errors: the field, what it should be, what was found; long values are cut."""
    where = shortened(printable(".".join(str(part) for part in item["loc"]))) or "(top level)"
    if item["type"] == "extra_forbidden":
        names = () if kind is None else _field_names(kind)
        close = difflib.get_close_matches(str(item["loc"][-1])[:SHOWN_CHARS], names, n=1)
        return f"unknown key '{where}'" + (f"; did you mean '{close[0]}'?" if close else "")
    if item["type"] == "json_invalid":
        return f"not valid JSON ({item['ctx']['error']})"
    if item["type"] == "missing":
        return f"{where}: this field is missing"
    problem = item["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return f"{where}: {shortened(problem, 10 * SHOWN_CHARS)} (found {shown(item['input'])})"


def shown(value: object) -> str:
    """A value as it is quoted in a message: on one line, cut if it is long."""
    if isinstance(value, str | bytes):
        value = value[: 2 * SHOWN_CHARS]
    elif isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}" if len(value) > 8 else shortened(_safe_repr(value))
    return shortened(_safe_repr(value))


def printable(text: str) -> str:
    """A text that stays on its line, and does nothing to a terminal."""
    return text if text.isprintable() else repr(text)[1:-1]


def shortened(text: str, most: int = SHOWN_CHARS) -> str:
    """A text with its end cut off if it is long."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _safe_repr(value: object) -> str:
    try:
        return repr(value).replace("\n", " ")
    except (ValueError, RecursionError):  # a number of thousands of digits, a structure of thousands of levels
        return f"a {type(value).__name__} that is too large to show"


def read_yaml(path: str | Path) -> Any:
    """Read a YAML file; say which file and line when it is missing or malformed."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise FewerError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > LARGEST_FILE:
        raise FewerError(f"{path} is larger than {LARGEST_FILE:,} bytes; is this a configuration?")
    try:
        return parse_yaml(content.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FewerError(f"{path}, line {line}: not UTF-8 text; convert the file to UTF-8") from error


def parse_yaml(text: str, source: object) -> Any:
    """The value of a YAML text; `source` names it in complaints."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise FewerError(f"{source}{line}: not valid YAML: {shortened(str(error.problem), 2 * SHOWN_CHARS)}") from error
    except yaml.reader.ReaderError as error:
        number, code = text.count("\n", 0, error.position) + 1, f"U+{error.character:04X}"
        raise FewerError(f"{source}, line {number}: not valid YAML: the character {code} is not allowed") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else _one_line(error)
        raise FewerError(f"{source}: not valid YAML: {why}") from error


class _Loader(yaml.SafeLoader):
    """Plain data only, and not too much of it."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _refused(f"it is nested more than {DEEPEST} levels deep", self.peek_event())
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None and _count(node, {}, 0) > MOST_NODES:
            raise _refused(f"with its aliases it has more than {MOST_NODES:,} values", node)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # of a bad date
            why = f" ({_one_line(error)})" if isinstance(error, ValueError) else f" as {node.tag.rpartition(':')[2]}"
            raise _refused(f"{shown(node.value)} cannot be read{why}", node) from error


def _refused(problem: str, place: Any) -> yaml.MarkedYAMLError:
    """place: a node or an event."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)


def _count(node: yaml.Node, known: dict[int, int], depth: int) -> int:
    """The values that a node becomes when every alias is replaced by what it stands for."""
    if id(node) not in known:
        if depth > 2 * DEEPEST:
            raise _refused("its aliases lead back to themselves, or too deep", node)
        parts = node.value if isinstance(node, yaml.SequenceNode | yaml.MappingNode) else []
        inner = [part for entry in parts for part in (entry if isinstance(entry, tuple) else (entry,))]
        known[id(node)] = 1 + sum(_count(part, known, depth + 1) for part in inner)
    return known[id(node)]


def _one_line(error: Exception) -> str:
    return shortened(" ".join(str(error).split()), 2 * SHOWN_CHARS)


def override_value(values: Any, override: str) -> Any:
    """Set one dotted key of a nested dict from `key=value`, in a copy."""
    key, equals, value = override.partition("=")
    named = shortened(" ".join(override.split()))
    if not equals or not all(key.split(".")):
        raise FewerError(f"--set {named}: write it as key=value, such as training.seed=2")
    if key.count(".") > DEEPEST:
        raise FewerError(f"--set {named}: the key has more than {DEEPEST} levels")
    return _with_value(values, key.split("."), parse_yaml(value, f"--set {named}"), named)


def _with_value(values: Any, keys: Sequence[str], value: Any, named: str) -> Any:
    if values is not None and not isinstance(values, dict):
        raise FewerError(f"--set {named}: what holds '{keys[0]}' has no keys; it is {shown(values)}")
    first, *rest = keys
    changed = dict(values or {})
    changed[first] = _with_value(changed.get(first), rest, value, named) if rest else value
    return changed


def _field_names(kind: type[BaseModel], seen: frozenset[type] = frozenset()) -> set[str]:
    names = set(kind.model_fields)
    for field in kind.model_fields.values():
        for candidate in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel) and candidate not in seen:
                names |= _field_names(candidate, seen | {kind})
    return names
