"""Configurations: pydantic models read from YAML, with errors that name file and field."""

import difflib
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from fewer.errors import FewerError


class Config(BaseModel):
    """Base of every configuration: frozen, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Kind = TypeVar("Kind", bound=BaseModel)


def parse_config(kind: type[Kind], values: Any, source: str | Path) -> Kind:
    """Validate `values`; every complaint names `source` and the field."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        lines = [f"{source}: {_complaint(kind, item)}" for item in error.errors()]
        raise FewerError("\n".join(lines)) from error


def read_yaml(path: str | Path) -> Any:
    """Read a YAML file; say which file and line when it is missing or malformed."""
    try:
        with open(path, encoding="utf-8") as stream:
            return yaml.safe_load(stream)
    except OSError as error:
        raise FewerError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FewerError(f"{path} is not valid YAML: {error}") from error


def override_value(values: Any, override: str) -> Any:
    """Set one dotted key of a nested dict from `key=value`, in a copy."""
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise FewerError(f"--set {override}: write it as key=value, such as training.seed=2")
    first, _, rest = key.partition(".")
    changed = dict(values or {})
    changed[first] = override_value(changed.get(first), f"{rest}={value}") if rest else yaml.safe_load(value)
    return changed


def _complaint(kind: type[BaseModel], item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"]) or "(top level)"
    if item["type"] == "extra_forbidden":
        close = difflib.get_close_matches(str(item["loc"][-1]), _field_names(kind), n=1)
        return f"unknown key '{where}'" + (f"; did you mean '{close[0]}'?" if close else "")
    return f"{where}: {item['msg']} (found {item['input']!r:.80})"


def _field_names(kind: type[BaseModel], seen: frozenset[type] = frozenset()) -> set[str]:
    names = set(kind.model_fields)
    for field in kind.model_fields.values():
        for candidate in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel) and candidate not in seen:
                names |= _field_names(candidate, seen | {kind})
    return names
