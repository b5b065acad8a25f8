"""README and docs: their code blocks, links and code spans."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "results" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = {"fewer", "make", "python", "torchrun", "pip", "git", "wget", "cat", "awk", "cd", "export", "mkdir"}
FILE = re.compile(r"to\s+`([\w./-]+)`:\s*$")  # prose before a block that is to be written to a file


@dataclass(frozen=True)
class Block:
    """A piece of code on a page."""

    page: Path
    line: int  # of its first line, from 1 on
    language: str  # of the fence; "" for an indented block
    text: str
    before: str  # the prose before it

    @property
    def file(self) -> str | None:
        """The file that the page asks to write it to."""
        found = FILE.search(self.before)
        return found[1] if found else None

    def commands(self) -> list[str]:
        """Its commands, one string each, without comments; an indented block may hold other things, too."""
        lines = [" ".join(line.split()) for line in self.text.replace("\\\n", " ").splitlines()]
        commands = [_without_comment(line) for line in lines if line and not line.startswith("#")]
        if self.language == "sh":
            return commands
        return [] if self.language else [line for line in commands if line.split()[0] in PROGRAMS]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Fenced and indented blocks in their order."""
    found: list[Block] = []
    lines, at, prose = page.read_text(encoding="utf-8").splitlines(), 0, ""
    while at < len(lines):
        fence = re.match(r"```(\w*)", lines[at])
        indented = lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip())
        first = at + bool(fence)
        if fence:
            at = end = next(i for i in range(first, len(lines)) if lines[i].startswith("```"))
        elif indented:
            while at + 1 < len(lines) and (lines[at + 1].startswith("    ") or not lines[at + 1].strip()):
                at += 1
            end = at + 1
        else:
            prose = f"{prose} {lines[at]}" if lines[at].strip() else f"{prose}\n"
            at += 1
            continue
        text = "\n".join(line if fence else line[4:] for line in lines[first:end]) + "\n"
        found.append(Block(page, first + 1, fence[1] if fence else "", text, prose.strip()))
        at, prose = at + 1, ""
    return found


def measurements(page: Path) -> list[str]:
    """Commands in the text with which something was measured."""
    return [span for span in spans(page) if span.startswith("python benchmarks/")]


def all_commands() -> list[str]:
    in_blocks = [command for page in PAGES for block in blocks(page) for command in block.commands()]
    return [*in_blocks, *(command for page in PAGES for command in measurements(page))]


def prose(page: Path) -> str:
    """The page without its fenced and indented blocks."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def spans(page: Path) -> list[str]:
    """What stands between backticks in the prose."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(page))]


def links(page: Path) -> list[str]:
    """Targets of links and images."""
    text = prose(page)
    return re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"<img[^>]*\ssrc=\"([^\"]+)\"", text)


def _without_comment(line: str) -> str:
    return re.sub(r"\s+#\s.*$", "", line)
