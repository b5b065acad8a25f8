"""Whether this machine's CPU computes in bfloat16 as it says it does.

Some virtual machines announce AMX and then refuse it: there oneDNN's bfloat16 ends the process by an illegal
instruction. The command line limits oneDNN for its own process; whoever imports fewer decides for theirs.
"""

import functools
import os
import signal
import subprocess
import sys

from fewer.errors import FewerError

VARIABLE, SAFE = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"  # the most that oneDNN uses; AMX comes after it
PRODUCT = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"


def limit_onednn() -> None:
    """Keep oneDNN of this process and those it starts from AMX. To be called before anything is computed."""
    os.environ.setdefault(VARIABLE, SAFE)


@functools.cache
def check_bfloat16(device_type: str, instead: str = "train with bf16: false") -> None:
    """An error that tells what to do, where the process would die. A child process tries it, once."""
    if device_type != "cpu" or os.environ.get(VARIABLE) == SAFE:
        return
    tried = subprocess.run([sys.executable, "-P", "-c", PRODUCT], capture_output=True, check=False)
    if tried.returncode == -signal.SIGILL:
        raise FewerError(
            "bfloat16 ends in an illegal instruction on this CPU (a virtual machine that refuses AMX?): "
            f"set the environment variable {VARIABLE}={SAFE} before Python starts, or {instead}"
        )
