"""The benchmark's synthetic recogniser, for tests."""

import importlib.util
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[2] / "benchmarks" / "tuning.py"


def load_benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("benchmark_tuning", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


benchmark = load_benchmark()
NoisyChannel = benchmark.NoisyChannel
TERMS: tuple[str, ...] = benchmark.TERMS
