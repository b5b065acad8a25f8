"""Every command in README and docs runs, on miniature data that is there under the names that the page uses."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import PAGES, ROOT, all_commands, blocks, measurements, name, spans
from tests.docs.shell import Shell, by_one_process, check_options, environment
from tests.docs.worlds import BEFORE

TINY_MODEL = "sub_epochs=1 model.encoder.layers=2 "
TINY_MODEL += "model.encoder.size=8 model.decoder.size=8 model.decoder.readout=8 model.energy=8"

# What is not run, by the command's beginning, and why.
NOT_RUN = {
    "wget ": "a download",
    "pip install": "changes the environment",
    "python benchmarks/ngram_scale.py": "needs a large text",
    "python benchmarks/score.py": "needs jiwer",
    "fewer prepare datasets": "a download",
    "fewer run mini-": "needs a real Whisper",
}
# What is done in place of a command: a part of it, as a regular expression, and what stands there instead.
INSTEAD = {
    r"^make (\w+)$": rf"make -n -C {ROOT} \1",  # the target exists; it would install
    r"(benchmarks/(train_step|decode).py)( --paper)?$": r"\1 --quick",
    r"(benchmarks/scale.py)$": r"\1 --sizes 2 --engines local --size 2",
    r"(benchmarks/manifest_memory.py)$": r"\1 --sizes 40 --steps 1",
    r"(benchmarks/ngram.py)$": r"\1 --words 2000 --order 2",
    r"(benchmarks/tuning.py)$": r"\1 --utterances 5 --grid 2",
    r"(benchmarks/transcribe.py .*)$": r"\1 --hours 0.0001",
    r"(benchmarks/whisper.py .*)$": r"\1 --utterances 1 --repeats 1",
    r"(benchmarks/word_lm.py .*)$": r"\1 --quick",
    r" --device cuda(:\d)?( --precision float16)?": " --device cpu",  # there need be no GPU
    r"--size \d+": "--size 12",  # labels: the texts are tiny
    r"(dev|tune|text):\d+": r"\1:1",  # speakers
    r"^(fewer train (?!.*--dry-run)libri-lstm .*)$": r"\1 --dry-run",  # LibriSpeech is not there
    r"^(fewer train (aed|small).yaml models/\S+)$": rf"\1 --set {' --set '.join(TINY_MODEL.split())}",
    r"^(fewer train lm.yaml models/\S+)$": r"\1 --set sub_epochs=1 --set model.embedding=4 --set model.size=8",
    r"^(fewer adapt .*)$": r"\1 --order 2 --beam 2",
    r"^(fewer adapt .* --dev .*)$": r"\1 --budget 2 --method sf",
    r"^(fewer ilm .*)$": r"\1 --set passes=1",
    r"^(fewer tune .*)$": r"\1 --budget 2 --beam 2",
    r"^(fewer decode .*)$": r"\1 --beam 2",
    r"--engine (?:ray\S*|processes:16)": "--engine processes:2",
    r"^(fewer run experiment.yaml \S+)$": (
        r"\1 --set beam=2 --set tuning.budget=2 --set ilm.all.passes=1 --set ilm.all.units=4"
    ),
}


def instead(command: str) -> str:
    for pattern, replacement in INSTEAD.items():
        command = re.sub(pattern, replacement, command)
    return command


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_commands_of_a_page_run(
    page: Path, tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if prepare := BEFORE.get(name(page)):
        prepare(tmp_path, tones)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shell = Shell(tmp_path, monkeypatch, capsys)

    def run(command: str, where: str) -> None:
        try:
            plain = by_one_process(command)
            if plain.startswith("fewer "):
                check_options(plain)
            if not plain.startswith(tuple(NOT_RUN)):
                shell.run(instead(plain))
        except BaseException as error:
            raise AssertionError(f"{where}: {command}") from error

    for block in blocks(page):
        where = f"{name(page)}, line {block.line}"
        if block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
            continue
        if block.language == "python":
            shell.python(block.text, where)
        assert block.language != "yaml", f"{where}: name the file that it is to be written to"
        for command in block.commands():
            run(command, where)
    for command in measurements(page):
        run(command, name(page))


def test_the_experiments_named_in_the_text_are_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {span for page in PAGES for span in spans(page) if re.fullmatch(r"fewer run [a-z][\w-]* RUN", span)}
    assert "fewer run whisper-librispeech RUN" in named
    shell = Shell(tmp_path, monkeypatch, capsys)
    for span in sorted(named):
        shell.run(f"{span} --dry-run")
    assert list(tmp_path.iterdir()) == []


def test_the_tables_name_only_what_is_on_the_pages() -> None:
    commands = [by_one_process(command) for command in all_commands()]
    for start in NOT_RUN:
        assert any(command.startswith(start) for command in commands), start
    for pattern in INSTEAD:
        assert any(re.search(pattern, command) for command in commands), pattern
    assert set(BEFORE) <= {name(page) for page in PAGES}


def test_yaml_blocks_are_valid() -> None:
    found = [block for page in PAGES for block in blocks(page) if block.language == "yaml"]
    assert found
    for block in found:
        assert isinstance(yaml.safe_load(block.text), dict), block


def test_fewer_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "fewer", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert (done.returncode, done.stdout.split()[0]) == (0, "fewer")
