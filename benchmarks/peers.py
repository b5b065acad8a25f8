"""fewer beside other programs that run the same Whisper: CPU-seconds, memory, WER and start-up, interleaved in one run.

    python benchmarks/peers.py MODEL SOURCE --environments FOLDER [--bundle BUNDLE] [--text TEXT] [--make]

MODEL is a folder of a Whisper as transformers saves it; SOURCE a folder of a LibriSpeech subset, a Kaldi data folder or
a manifest. Some utterances are transcribed as short files, others joined to one recording. FOLDER has a virtual
environment for each of faster-whisper, openai-whisper, transformers (with ctranslate2, which converts the weights for
faster-whisper) and whisper-lm-transformers; what is not there is left out. --make creates those that are missing.
--env NAME=PYTHON names an interpreter elsewhere. BUNDLE is one of `fewer adapt`. TEXT makes the word 4-gram of
whisper-lm-transformers.

All use beam 5 and one thread. In each round every system transcribes the utterances, then every one the recording, so
that noise hits all alike. A ratio is a system's time over that of the reference in the same round: the median, with the
least and the largest. Start-up is a new process that transcribes 3 seconds. WER is by Whisper's normaliser. The last
line is JSON with the ratios; --results FOLDER writes peers.json and peers.md.
"""

import argparse
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from machine import matmul_peak
from recordings import RATE, Utterance, clips, duration, librispeech

from fewer.data.token_store import read_text
from fewer.evaluation.normalise import Normaliser, load_normaliser
from fewer.evaluation.wer import Errors, word_errors
from fewer.recognisers.loader import load_recogniser
from fewer.store.ngram_files import save_ngram
from fewer.training.ngram import estimate

INT8, FLOAT32 = "faster-whisper int8", "faster-whisper float32"
REFERENCE = INT8
LM = "whisper-lm-transformers"
PACKAGES = {  # of each environment
    "faster-whisper": ("faster-whisper",),
    "openai-whisper": ("torch", "openai-whisper"),
    "transformers": ("torch", "transformers", "ctranslate2"),
    LM: ("torch", "whisper-lm-transformers==0.2.0", "transformers==4.50.3", "openai-whisper", "kenlm"),
}
OPENAI = {  # names of transformers in those of openai-whisper
    r"^model\.": "",
    r"\.layers\.": ".blocks.",
    r"embed_tokens": "token_embedding",
    r"embed_positions\.weight": "positional_embedding",
    r"\.self_attn_layer_norm": ".attn_ln",
    r"\.encoder_attn_layer_norm": ".cross_attn_ln",
    r"\.self_attn\.": ".attn.",
    r"\.encoder_attn\.": ".cross_attn.",
    r"\.q_proj": ".query",
    r"\.k_proj": ".key",
    r"\.v_proj": ".value",
    r"\.out_proj": ".out",
    r"\.fc1": ".mlp.0",
    r"\.fc2": ".mlp.2",
    r"\.final_layer_norm": ".mlp_ln",
    r"^encoder\.layer_norm": "encoder.ln_post",
    r"^decoder\.layer_norm": "decoder.ln",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--environments", type=Path, default=Path("peers"), metavar="FOLDER")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--make", action="store_true", help="create the environments that are missing, with pip")
    parser.add_argument("--bundle", type=Path, help="of `fewer adapt`, for the same model")
    parser.add_argument("--text", type=Path, help="for the word 4-gram of whisper-lm-transformers")
    parser.add_argument("--speakers", help="of LibriSpeech, separated by commas; default: all")
    parser.add_argument("--utterances", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=5.0, help="of the recording")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precisions", default="float32", help="of fewer, separated by commas")
    parser.add_argument("--only", help="systems, separated by commas; default: all that are there")
    parser.add_argument("--results", type=Path, help="folder for peers.json and peers.md")
    args = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    torch.set_num_threads(1)
    pythons = environments(args)
    work = args.environments / "work"
    work.mkdir(parents=True, exist_ok=True)
    short, long = chosen(args)
    write_audio(work, short, long)
    commands = systems(args, pythons, work)
    found = measured(commands, args.rounds, work)
    for name, command in commands.items():
        found[name]["start_up"] = start_up(name, command, work, args.rounds)
    add_wer(found, short, long, load_normaliser(load_recogniser(args.model).defaults.normaliser))
    facts = {
        "model": args.model.name,
        "seconds": {"short": round(sum(map(duration, short)), 1), "long": round(sum(map(duration, long)), 1)},
        "utterances": len(short),
        "rounds": args.rounds,
        "import_torch": start_up("import torch", [sys.executable, "-c", "import torch"], work, args.rounds),
        "gflops": round(matmul_peak() / 1e9, 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "systems": found,
    }
    shown = table(facts)
    print(shown)
    if args.results is not None:
        kept = {name: {key: row[key] for key in row if key != "texts"} for name, row in found.items()}
        (args.results / "peers.json").write_text(json.dumps(facts | {"systems": kept}, indent=1) + "\n")
        (args.results / "peers.md").write_text(f"# fewer and other programs\n\n{shown}\n")
    print(json.dumps({"ratios": {name: ratios(found, name) for name in found}}))


def environments(args: argparse.Namespace) -> dict[str, str]:
    """The interpreter of each package that is there."""
    given = dict(text.split("=", 1) for text in args.env)
    pythons = {"fewer": sys.executable}
    same = {"torch": f"torch=={torch.__version__.partition('+')[0]}"}  # for all
    for name, packages in PACKAGES.items():
        python = Path(given.get(name, args.environments / name / "bin" / "python"))
        if not python.exists() and args.make:
            packages = tuple(same.get(package, package) for package in packages)
            print(f"pip install {' '.join(packages)}", file=sys.stderr, flush=True)
            folder = args.environments / name
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
        if python.exists():
            pythons[name] = str(python.absolute())
        else:
            print(f"{name} is left out: there is no {python}; --make creates it", file=sys.stderr)
    return pythons


def chosen(args: argparse.Namespace) -> tuple[list[Utterance], list[Utterance]]:
    """Short files, and what the recording is made of: consecutive utterances, none of which is among the short ones."""
    if next(args.source.glob("*/*/*.trans.txt"), None) if args.source.is_dir() else None:
        speakers = args.speakers and args.speakers.split(",")
        every = [utterance for chapter in librispeech(args.source, speakers) for utterance in chapter]
    else:
        every = list(clips(args.source))
    every = [utterance for utterance in every if duration(utterance) < 30]
    long, seconds = list[Utterance](), 0.0
    for utterance in every:
        if seconds >= 60 * args.minutes:
            break
        long.append(utterance)
        seconds += duration(utterance)
    rest = every[len(long) :]
    if len(rest) < args.utterances:
        raise SystemExit(f"{args.source}: {len(every)} utterances, too few for a recording and {args.utterances} more")
    return sorted(random.Random(0).sample(rest, args.utterances), key=lambda utterance: utterance.id), long


def write_audio(work: Path, short: Sequence[Utterance], long: Sequence[Utterance]) -> None:
    audio = {f"short-{number:04}": utterance.load().astype(np.float32) for number, utterance in enumerate(short)}
    whole = np.concatenate([utterance.load() for utterance in long]).astype(np.float32)
    first = next(samples for samples in audio.values() if len(samples) >= 3 * RATE)[: 3 * RATE]
    np.savez(work / "audio.npz", **audio, **{"long-0000": whole, "start-0000": first})  # type: ignore[arg-type]
    soundfile.write(work / "start.wav", first, RATE)


def systems(args: argparse.Namespace, pythons: dict[str, str], work: Path) -> dict[str, list[str]]:
    """The command of each system."""
    models: dict[str, tuple[str, ...]] = {}
    for precision in args.precisions.split(","):
        models[f"fewer {precision}"] = (str(args.model),)
        if args.bundle is not None:
            models[f"fewer bundle {precision}"] = (str(args.bundle),)
    if "faster-whisper" in pythons and (folder := converted(args.model, pythons, work)) is not None:
        models |= {INT8: (str(folder),), f"{INT8} batched": (str(folder),), FLOAT32: (str(folder),)}
    if "openai-whisper" in pythons:
        models["openai-whisper"] = (str(renamed(args.model, work)),)
    if "transformers" in pythons:
        models["transformers"] = (str(args.model),)
    if LM in pythons and args.text is not None:
        arpa = work / "words.arpa"
        if not arpa.exists():
            word_ngram(args.text, 4, arpa)
        models[LM] = (str(args.model), str(arpa))
    script, audio = Path(__file__).with_name("peer.py"), work / "audio.npz"
    commands = {}
    for name, (model, *lm) in models.items():
        if args.only is None or name in args.only.split(","):
            commands[name] = [pythons[name.split()[0]], "-P", str(script), name, model, str(audio), *lm]
    return commands


def converted(model: Path, pythons: dict[str, str], work: Path) -> Path | None:
    """The weights for faster-whisper, in float32; it makes int8 of them when it loads them."""
    folder = work / "ctranslate2"
    if folder.exists():
        return folder
    if "transformers" not in pythons:
        print("faster-whisper is left out: ctranslate2 and transformers convert its weights", file=sys.stderr)
        return None
    convert = "from ctranslate2.converters.transformers import main; main()"  # ct2-transformers-converter
    command = [pythons["transformers"], "-P", "-c", convert, "--model", str(model), "--output_dir", str(folder)]
    copied = ["--copy_files", "tokenizer.json", "preprocessor_config.json"]
    subprocess.run([*command, *copied], check=True, env=clean(), stdout=sys.stderr)
    return folder


def renamed(model: Path, work: Path) -> Path:
    """The weights in a file of openai-whisper."""
    from safetensors.torch import load_file

    path = work / "openai.pt"
    if path.exists():
        return path
    config = json.loads((model / "config.json").read_text())
    weights = {}
    for name, tensor in load_file(model / "model.safetensors").items():
        for pattern, other in OPENAI.items():
            name = re.sub(pattern, other, name)
        if name != "proj_out.weight":
            weights[name] = tensor.float()
    sizes = {
        "n_mels": config["num_mel_bins"],
        "n_vocab": config["vocab_size"],
        "n_audio_ctx": config["max_source_positions"],
        "n_audio_state": config["d_model"],
        "n_audio_head": config["encoder_attention_heads"],
        "n_audio_layer": config["encoder_layers"],
        "n_text_ctx": config["max_target_positions"],
        "n_text_state": config["d_model"],
        "n_text_head": config["decoder_attention_heads"],
        "n_text_layer": config["decoder_layers"],
    }
    torch.save({"dims": sizes, "model_state_dict": weights}, path)
    return path


def word_ngram(source: Path, order: int, arpa: Path) -> None:
    """An ARPA file over the words of a text, in lower case and without punctuation."""
    ids, stream = {"</s>": 0, "<unk>": 1}, list[int]()
    for line in read_text(source):
        words = re.sub(r"[^\w\s']", " ", line.lower()).split()
        stream += [*(ids.setdefault(word, len(ids)) for word in words), 0] if words else []
    save_ngram(arpa, estimate(torch.tensor(stream), order, len(ids), 0, prune=(0, 0, 1)), list(ids))


def clean() -> dict[str, str]:
    """The environment without what belongs to this interpreter."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def process(name: str, command: Sequence[str], work: Path) -> "subprocess.Popen[str]":
    env = dict(os.environ) if name.startswith("fewer") else clean()
    pipe = subprocess.PIPE
    with (work / f"{name.replace(' ', '-')}.log").open("w") as log:
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, env=env)


def measured(commands: dict[str, list[str]], rounds: int, work: Path) -> dict[str, dict[str, Any]]:
    """Of each system its version, and of each set CPU-seconds in each round, memory and texts."""
    running = {name: process(name, command, work) for name, command in commands.items()}
    found: dict[str, dict[str, Any]] = {}
    for name, started in running.items():
        found[name] = answer(name, started, work) | {"short": [], "long": [], "texts": {}}
    for _ in range(rounds):
        for part in ("short", "long"):
            for name, worker in running.items():
                if part == "long" and name == LM:
                    continue
                assert worker.stdin is not None
                print(part, file=worker.stdin, flush=True)
                said = answer(name, worker, work)
                found[name][part].append(round(said["seconds"], 3))
                found[name]["texts"][part] = said["texts"]
                found[name].setdefault("megabytes", {})[part] = said["megabytes"]
                print(f"{name}: {part} {said['seconds']:.2f} CPU-s", file=sys.stderr, flush=True)
    for worker in running.values():
        worker.communicate()
    return found


def answer(name: str, worker: "subprocess.Popen[str]", work: Path) -> dict[str, Any]:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise SystemExit(f"{name} failed:\n{(work / name.replace(' ', '-')).with_suffix('.log').read_text()}")
    value: dict[str, Any] = json.loads(line)
    return value


def start_up(name: str, command: Sequence[str], work: Path, rounds: int) -> dict[str, float]:
    """CPU-seconds and memory of a new process that transcribes 3 seconds: the least of several."""
    if name.startswith("fewer"):
        options = ["--model", command[4], "--precision", name.split()[-1], "--device", "cpu"]
        command = [command[0], "-m", "fewer", "transcribe", str(work / "start.wav"), *options]
    seconds, megabytes = list[float](), list[float]()
    for _ in range(rounds):
        worker = process(name, command, work)
        assert worker.stdin is not None
        assert worker.stdout is not None
        print("start", file=worker.stdin)
        worker.stdin.close()
        worker.stdout.read()
        _, status, used = os.wait4(worker.pid, 0)
        worker.returncode = os.waitstatus_to_exitcode(status)
        if worker.returncode:
            raise SystemExit(f"{' '.join(command)} failed")
        seconds.append(used.ru_utime + used.ru_stime)
        megabytes.append(used.ru_maxrss / 1024)
    return {"seconds": round(min(seconds), 2), "megabytes": round(min(megabytes))}


def add_wer(
    found: dict[str, dict[str, Any]], short: Sequence[Utterance], long: Sequence[Utterance], normaliser: Normaliser
) -> None:
    refs = {"short": [utterance.text for utterance in short], "long": [" ".join(utterance.text for utterance in long)]}
    for row in found.values():
        row["wer"] = {}
        for part, texts in row["texts"].items():
            errors: list[Errors] = [
                word_errors(normaliser.ref(ref), normaliser.hyp(text))
                for ref, text in zip(refs[part], texts, strict=True)
            ]
            row["wer"][part] = round(sum(errors[1:], errors[0]).wer, 2)


def ratios(found: dict[str, dict[str, Any]], name: str) -> dict[str, list[float]]:
    """Median, least and largest of the rounds, of each set."""
    reference = found.get(REFERENCE, next(iter(found.values())))
    shown = {}
    for part in ("short", "long"):
        if found[name][part]:
            each = [own / other for own, other in zip(found[name][part], reference[part], strict=True)]
            shown[part] = [round(value, 3) for value in (statistics.median(each), min(each), max(each))]
    return shown


def table(facts: dict[str, Any]) -> str:
    """Markdown."""
    seconds, found = facts["seconds"], facts["systems"]
    reference = REFERENCE if REFERENCE in found else next(iter(found))
    lines = [
        f"{facts['model']}, beam 5, one thread; {facts['utterances']} utterances of {seconds['short']:.0f} s together "
        f"and one recording of {seconds['long']:.0f} s, {facts['rounds']} rounds. Float32 peak "
        f"{facts['gflops']:.0f} GFLOP/s; Python {facts['python']}, torch {facts['torch']}. Ratios are to {reference}, "
        f"with the least and the largest of the rounds. `import torch` alone takes {facts['import_torch']['seconds']} "
        f"CPU-s and {facts['import_torch']['megabytes']} MB.",
        "",
        "| system | version | short: CPU-s | ratio | WER | recording: CPU-s | ratio | WER | memory, MB "
        "| start-up: CPU-s | MB |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in found.items():
        cells = [name, row["version"]]
        for part in ("short", "long"):
            if not row[part]:
                cells += ["–", "–", "–"]
                continue
            middle, low, high = ratios(found, name)[part]
            wer = row["wer"][part]
            cells += [f"{statistics.median(row[part]):.2f}", f"{middle:.2f} ({low:.2f}–{high:.2f})", f"{wer:.2f}"]
        began = row["start_up"]
        cells += [str(max(row["megabytes"].values())), f"{began['seconds']:.2f}", str(began["megabytes"])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
