"""What README and docs point to is there."""

import re
from pathlib import Path

import pytest

from fewer.cli import COMMANDS
from tests.docs.pages import PAGES, ROOT, all_commands, links, name, spans
from tests.docs.shell import options_of

OTHERS = {"--nproc-per-node", "--inputs", "--distinct"}  # options of other programs


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_and_images_exist(page: Path) -> None:
    for link in links(page):
        if not link.startswith(("http://", "https://", "mailto:")):
            target, _, anchor = link.partition("#")
            file = (page.parent / target) if target else page
            assert file.exists(), f"{name(page)}: {link}"
            titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M) if anchor else []
            assert not anchor or anchor in [slug(title) for title in titles], f"{name(page)}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_of_the_repository_that_are_named_exist(page: Path) -> None:
    for span in [*spans(page), *all_commands()]:
        for path in re.findall(r"\b((?:src|docs|benchmarks|tests|results)/[\w./-]+)", span):
            assert (ROOT / path).exists(), f"{name(page)}: {path}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_and_options_in_the_text_exist(page: Path) -> None:
    everything = set().union(*(options_of(verb) for verb in COMMANDS)) | OTHERS
    for span in spans(page):
        words = span.split()
        verb = words[1] if words[0] == "fewer" and len(words) > 1 and words[1].islower() else None
        assert verb is None or verb in COMMANDS, f"{name(page)}: {span}"
        known = everything if verb is None else options_of(verb)
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", span):
            assert option in known, f"{name(page)}: {span}"


def test_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [verb for verb in COMMANDS if not re.search(rf"\b{verb}\b", text)] == []


def slug(title: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
