"""How fast named GPUs are: peak rates as their makers publish them, and what share of that is assumed to be reached."""

from dataclasses import dataclass

from fewer.errors import FewerError

TRAINING_SHARE = 0.3  # of the peak rate, in training: large products of matrices, but one frame after the other
DECODING_SHARE = 0.05  # in a search: small products, one label after the other


@dataclass(frozen=True)
class Gpu:
    """Operations per second of dense products, and memory."""

    name: str
    float32: float  # TFLOP/s without TF32, as torch multiplies by default
    bfloat16: float | None  # TFLOP/s of tensor cores, without sparsity; None: it has none
    memory: float  # GB

    def rate(self, bf16: bool) -> float:
        """Floating-point operations per second at its peak."""
        return 1e12 * (self.bfloat16 if bf16 and self.bfloat16 else self.float32)


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("GTX-1080-Ti", 11.3, None, 11),
        Gpu("V100", 15.7, None, 32),  # its tensor cores know float16 only
        Gpu("RTX-3090", 35.6, 71.0, 24),
        Gpu("RTX-4090", 82.6, 165.2, 24),
        Gpu("A100", 19.5, 312.0, 80),
        Gpu("H100", 67.0, 989.4, 80),
    )
}
DEFAULT = "A100"


def find_gpu(name: str) -> Gpu:
    for known, gpu in GPUS.items():
        if known.lower() == name.lower():
            return gpu
    raise FewerError(f"there is no GPU {name!r} in the table; it has {', '.join(GPUS)}")
