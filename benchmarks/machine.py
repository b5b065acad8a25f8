"""What this machine can do: its matrix-multiplication peak, and the CPU-seconds of a function."""

import time
from collections.abc import Callable

import torch


def cpu_seconds(function: Callable[[], object], repeats: int = 5) -> float:
    """The least CPU time of several runs, after one to warm up: noise only ever adds."""
    function()
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        function()
        best = min(best, time.process_time() - began)
    return best


def matmul_peak(size: int = 1024) -> float:
    """Floating-point operations per CPU-second of a square float32 matrix product."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / cpu_seconds(lambda: a @ b, repeats=20)
