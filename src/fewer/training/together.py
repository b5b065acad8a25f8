"""Training in several processes of this machine, as torchrun would start them."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from time import sleep
from typing import IO, Any

import torch
from torch.distributed import TCPStore

from fewer.errors import FewerError
from fewer.files import unwritable
from fewer.training.configs import TrainConfig, parse_train_config
from fewer.training.run import train_model

HERE = "127.0.0.1"
PAUSE = 0.05  # seconds between looks at the processes
FAILED = 3  # exit code of a process that has told why


def train_together(config: TrainConfig, folder: str | Path, processes: int) -> None:
    """`train_model` in so many processes of this machine; the threads are divided among them.

    When one of them fails, or this process is interrupted or killed, all of them end.
    """
    if processes == 1:
        train_model(config, folder)
        return
    job = {"config": config.model_dump(mode="json"), "folder": str(folder)}
    _run(job, processes)


def _run(job: dict[str, Any], processes: int) -> None:
    store = TCPStore(HERE, 0, is_master=True, wait_for_workers=False)  # on a port that is free
    shared = {"MASTER_ADDR": HERE, "MASTER_PORT": str(store.port), "WORLD_SIZE": str(processes)}
    shared |= {"TORCHELASTIC_USE_AGENT_STORE": "True"}  # the store is here, not in the first of the processes
    shared |= {"OMP_NUM_THREADS": str(max(torch.get_num_threads() // processes, 1))}
    group = [_start(rank, shared, job) for rank in range(processes)]
    try:
        while None in (codes := [process.poll() for process in group]) and not any(codes):
            sleep(PAUSE)
    finally:
        for process in group:
            process.kill()
        told = [process.communicate()[0].strip() for process in group]
    if failed := [process for process in group if process.returncode == FAILED]:
        raise FewerError(told[group.index(failed[0])])
    if codes := [code for code in codes if code]:
        why = f"was killed by signal {-codes[0]}, perhaps for want of memory" if codes[0] < 0 else "has failed"
        raise FewerError(f"a training process {why}; run the same command again, it goes on where it stopped")


def _start(rank: int, shared: dict[str, str], job: dict[str, Any]) -> "subprocess.Popen[str]":
    """One process, which does not hear Ctrl-C: its standard input stays open for as long as it is wanted.

    -P: Python files of the current folder are not imported.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    return process


def _work() -> None:
    """What each process does: a job from standard input; on standard output, only why it could not be done."""
    answer, sys.stdout = sys.stdout, sys.stderr
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with, args=(sys.stdin,), daemon=True).start()
    try:
        train_model(parse_train_config(job["config"], job["folder"]), job["folder"])
    except (FewerError, OSError) as error:
        problem = unwritable(error) if isinstance(error, OSError) else str(error)
        if problem is None:
            raise
        print(problem, file=answer, flush=True)
        os._exit(FAILED)  # at once: the other processes wait for this one


def _end_with(stream: IO[str]) -> None:
    """End when the other end of the stream is closed, be it by a kill."""
    stream.read()
    os._exit(1)


if __name__ == "__main__":
    _work()
