"""bfloat16 where a machine promises more than it does."""

from pathlib import Path

import pytest

from fewer.compute import bfloat16
from fewer.compute.bfloat16 import SAFE, VARIABLE, check_bfloat16
from fewer.errors import FewerError

ILLEGAL = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


def test_an_illegal_instruction_is_told_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    check_bfloat16.cache_clear()
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(bfloat16, "PRODUCT", ILLEGAL)
    with pytest.raises(FewerError, match=f"{VARIABLE}={SAFE} before Python starts"):
        check_bfloat16("cpu")
    check_bfloat16("cuda")
    monkeypatch.setenv(VARIABLE, SAFE)
    check_bfloat16("cpu")  # it is not tried: oneDNN is kept from it
    check_bfloat16.cache_clear()


def test_a_machine_that_can_is_asked_once_and_nothing_of_the_current_folder_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tempting.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    monkeypatch.chdir(tmp_path)
    check_bfloat16.cache_clear()
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(bfloat16, "PRODUCT", "import tempting")
    check_bfloat16("cpu")
    monkeypatch.setattr(bfloat16, "PRODUCT", ILLEGAL)
    check_bfloat16("cpu")
    check_bfloat16.cache_clear()
