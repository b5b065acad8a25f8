"""What this machine can do: its matrix-multiplication peak, and the CPU-seconds of a function."""

import time
from collections.abc import Callable

import torch

PEAK = 90e9  # floating-point operations per CPU-second of the machine to which figures are scaled
QUICK = "tiny sizes, everything once: to see it run; the numbers mean nothing"  # help of --quick


def cpu_seconds(function: Callable[[], object], repeats: int = 5) -> float:
    """The least CPU time of several runs, after one to warm up (if there are several): noise only ever adds."""
    if repeats > 1:
        function()
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        function()
        best = min(best, time.process_time() - began)
    return best


def matmul_peak(size: int = 1024, repeats: int = 20) -> float:
    """Floating-point operations per CPU-second of a square float32 matrix product."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / cpu_seconds(lambda: a @ b, repeats)


def scaled(seconds: float, peak: float) -> float:
    """What CPU-seconds of this machine would be on one whose matrix-multiplication peak is PEAK."""
    return seconds * peak / PEAK
