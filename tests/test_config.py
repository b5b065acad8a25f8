"""YAML of strangers: no endless expansion, no tracebacks, messages of a few lines."""

import re
import time
from pathlib import Path

import pytest
from pydantic import Field

from fewer.config import Config, override_value, parse_config, parse_yaml, read_yaml
from fewer.errors import FewerError

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (LAUGHS, "with its aliases it has more than 100,000 values"),
        ("a: &a [*a]", "lead back to themselves"),
        ("[" * 10_000, "nested more than 50 levels deep"),
        ("a: " * 3, "line 1: not valid YAML: mapping values are not allowed here"),
        ("a: 1\nb: 2024-13-45", "line 2: not valid YAML: '2024-13-45' cannot be read (month must be in 1..12)"),
        ("a: !!timestamp x", "line 1: not valid YAML: 'x' cannot be read as timestamp"),
        ("a: !!bool x", "line 1: not valid YAML: 'x' cannot be read as bool"),
        ("a: !!python/name:os.system", "line 1: not valid YAML: could not determine a constructor"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: " + "9" * 5000, "cannot be read (Exceeds the limit"),
        ("? [1]\n: 2", "line 1: not valid YAML: found unhashable key"),
        ("a: 1\nb: \x01", "line 2: not valid YAML: the character U+0001 is not allowed"),
        ("x" * (1 << 20) + "x", "larger than 1,048,576 bytes"),
    ],
)
def test_what_no_configuration_says_is_refused_at_once(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    began = time.monotonic()
    with pytest.raises(FewerError, match=re.escape(complaint)) as error:
        read_yaml(path)
    assert time.monotonic() - began < 10
    assert str(error.value).startswith(str(path))
    assert len(str(error.value).splitlines()) <= 3


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(b"b: 1\na: \xff\xfe\n")
    with pytest.raises(FewerError, match=r"c\.yaml, line 2: not UTF-8 text; convert the file to UTF-8"):
        read_yaml(path)


def test_aliases_of_ordinary_size_are_fine() -> None:
    assert parse_yaml("a: &x {b: 1}\nc:\n  <<: *x\n  d: *x\n", "c.yaml") == {
        "a": {"b": 1},
        "c": {"b": 1, "d": {"b": 1}},
    }


@pytest.mark.parametrize("override", ["a=[", "a=!!python/name:os.system", "a.=1", ".a=1", "a", "=1", "b.c=1", "a=*x"])
def test_a_bad_override_is_named(override: str) -> None:
    with pytest.raises(FewerError, match=re.escape(f"--set {override}")):
        override_value({"b": [1, 2]}, override)


def test_an_override_changes_one_value_in_a_copy() -> None:
    values = {"a": {"b": 1, "c": 2}}
    assert override_value(values, "a.b=[3, x]") == {"a": {"b": [3, "x"], "c": 2}}
    assert override_value(None, "a.b=1") == {"a": {"b": 1}}
    assert values == {"a": {"b": 1, "c": 2}}


class Numbers(Config):
    values: list[int] = Field(default=[])


def test_long_values_and_many_errors_are_cut() -> None:
    with pytest.raises(FewerError) as error:
        parse_config(Numbers, {"values": ["x" * 10_000] * 500}, "c.yaml")
    lines = str(error.value).splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) < 250
    assert lines[-1].endswith("… and 497 more")


def test_a_name_with_line_breaks_and_terminal_codes_stays_on_its_line() -> None:
    with pytest.raises(FewerError, match=r"unknown key 'a\\n\\x1b\[31mb'") as error:
        parse_config(Numbers, {"a\n\x1b[31mb": 1}, "c.yaml")
    assert len(str(error.value).splitlines()) == 1


def test_very_long_words_of_a_message_are_cut() -> None:
    message = str(FewerError(f"cannot read {'x' * 5000}.wav: no such file"))
    assert len(message) < 400
    assert message.startswith("cannot read xxx")
    assert message.endswith("xxx.wav: no such file")
