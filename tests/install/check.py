"""Install the wheel in fresh environments and run real commands there: python -m tests.install.check

Three environments: no extra, [hf], and [hf] with the oldest version of every dependency but torch. Each starts with the
CPU build of torch, which is installed once and hard-linked.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT, blocks

CONSTRAINTS = ROOT / "constraints.txt"
OLDER = {"huggingface-hub", "pydantic-core"}  # the oldest transformers and pydantic need older ones
TIMEOUT = 900  # seconds for one command

IMPORT_ALL = """
import importlib, pkgutil, fewer
from fewer.errors import FewerError
for module in pkgutil.walk_packages(fewer.__path__, "fewer."):
    if module.name != "fewer.__main__":
        try:
            importlib.import_module(module.name)
        except FewerError as error:  # an extra is missing
            assert "pip install" in str(error), error
"""


@dataclass(frozen=True)
class Case:
    """An environment and what must work there."""

    name: str
    extras: str  # as in the brackets of a requirement
    constraints: Path
    commands: Sequence[str]
    refused: dict[str, str]  # commands that need an extra which is not there, and a part of their message


class Failed(Exception):
    pass


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fewer-install-") as folder:
        work = Path(folder)
        oldest = work / "oldest.txt"
        oldest.write_text("".join(f"{line}\n" for line in oldest_versions()))
        helps = ["fewer --help", "fewer prepare --help | grep librispeech:"]  # arguments are explained, too
        everywhere = [*helps, "fewer score hyp.trn --ref ref.trn --rules plain", "fewer train libri-lstm --dry-run"]
        block = ["python -m tests.install.world", *readme_block()]
        adapt = next(command for command in block if command.startswith("fewer adapt"))
        cases = [
            Case("oldest", "[hf]", oldest, [*everywhere, *block], {}),
            Case("hf", "[hf]", CONSTRAINTS, [*everywhere, *block], {}),
            Case("plain", "", CONSTRAINTS, everywhere, {adapt: "fewer[hf]", "fewer demo": "fewer[demo]"}),
        ]
        try:
            wheel = build_wheel(work)
            base = with_torch(work / "base")
            with ThreadPoolExecutor(max_workers=2) as pool:
                for line in pool.map(lambda case: check(case, work / case.name, wheel, base), cases):
                    print(line, flush=True)
        except Failed as failure:
            sys.exit(f"install check: {failure}")


def oldest_versions() -> list[str]:
    """Constraints: the lower bounds of pyproject.toml, and for everything else the versions of constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = [*project["dependencies"], *project["optional-dependencies"]["hf"]]
    oldest = {normal(bound.split(">=")[0]): bound.replace(">=", "==") for bound in bounds}
    newest = {normal(line.split("==")[0]): line for line in CONSTRAINTS.read_text(encoding="utf-8").split()}
    chosen = {**newest, **oldest, "torch": newest["torch"]}
    return [line for name, line in sorted(chosen.items()) if name not in OLDER]


def normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def readme_block() -> list[str]:
    """README's commands that adapt a recogniser and transcribe with it."""
    found = [block.commands() for block in blocks(ROOT / "README.md") if "fewer adapt " in block.text]
    commands = [command for command in found[0] if command.startswith("fewer ")]
    assert any(command.startswith("fewer transcribe ") for command in commands), commands
    return commands


def build_wheel(work: Path) -> Path:
    """Built from a copy, so that old build files do not count. Every file of the package must be in it."""
    source = work / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    files = {path.relative_to(source / "src").as_posix() for path in (source / "src").rglob("*") if path.is_file()}
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", work, source], work)
    (wheel,) = work.glob("*.whl")
    if missing := files - set(zipfile.ZipFile(wheel).namelist()):
        raise Failed(f"the wheel lacks {', '.join(sorted(missing))}; add them to package-data in pyproject.toml")
    return wheel


def with_torch(folder: Path) -> Path:
    """An environment with the pinned torch and nothing else. Returns its packages."""
    venv.create(folder, with_pip=True, symlinks=True)
    (torch,) = (line for line in CONSTRAINTS.read_text(encoding="utf-8").split() if line.startswith("torch=="))
    run([folder / "bin" / "python", "-m", "pip", "install", "-q", torch, "-c", CONSTRAINTS], folder)
    return packages(folder)


def check(case: Case, folder: Path, wheel: Path, base: Path) -> str:
    """Install and run everything; returns a line about it."""
    start, environment, place = time.monotonic(), folder / "environment", folder / "work"
    venv.create(environment, with_pip=False, symlinks=True)
    shutil.copytree(base, packages(environment), copy_function=link, dirs_exist_ok=True)
    place.mkdir()
    python = environment / "bin" / "python"
    run([python, "-m", "pip", "install", "-q", "--no-compile", f"{wheel}{case.extras}", "-c", case.constraints], place)
    run([python, "-m", "pip", "check"], place)
    installed = time.monotonic()
    (place / "ref.trn").write_text("the cat in the hat (speaker-1)\n(speaker-2)\n")
    (place / "hyp.trn").write_text("the cat in a hat (speaker-1)\na (speaker-2)\n")
    (place / "domain.txt").write_text("THE CAT IN THE HAT\nA HAT IN A CAT\nA TIN CAT\n")
    (folder / "home").mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    clean |= {"PATH": f"{environment}/bin{os.pathsep}{os.environ['PATH']}", "HOME": str(folder / "home")}
    clean |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    run([python, "-c", IMPORT_ALL], place, clean)
    for command in case.commands:
        tests = {"PYTHONPATH": str(ROOT)} if command.startswith("python -m tests.") else {}
        run(["bash", "-c", command], place, {**clean, **tests})
    for command, message in case.refused.items():
        output = run(["bash", "-c", command], place, clean, succeeds=False)
        if message not in output or "Traceback" in output:
            raise Failed(f"{case.name}: {command}: the message does not name {message}\n{output}")
    size = sum(path.lstat().st_size for path in environment.rglob("*")) / 1e9
    times = f"installed in {installed - start:.0f} s, run in {time.monotonic() - installed:.0f} s"
    return f"install check: {case.name}: {size:.1f} GB, {times}"


def run(
    command: Sequence[str | Path], folder: Path, environment: dict[str, str] | None = None, succeeds: bool = True
) -> str:
    """Returns what it printed. Raises Failed if it fails, or if it should and does not."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    if (done.returncode == 0) != succeeds:
        words = " ".join(str(word) for word in command)
        raise Failed(f"{folder}: exit code {done.returncode}: {words}\n{done.stdout[-4000:]}")
    return done.stdout


def packages(environment: Path) -> Path:
    return environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def link(source: str, target: str) -> None:
    """A hard link, or a copy where the file system has none. pip replaces files and never writes into them."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


if __name__ == "__main__":
    main()
