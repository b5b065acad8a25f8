"""The commands that Kaldi's and ESPnet's recipes write into wav.scp, understood without being run.

A command is one that reads a file (cat, flac, sph2pipe, sox, ffmpeg), perhaps with further sox behind it. Known options
say which channel is meant and at what rate; anything else makes the command one that is not understood.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

QUIET = re.compile(r"\s2>\s*/dev/null(?=\s|$)")
SHELL = re.compile(r"[;&<>()$`*?\[\]{}!#\n]")  # what a shell would do more with than take it as a letter
STANDARD = ("-", "pipe:", "pipe:0", "pipe:1", "/dev/stdin", "/dev/stdout")
TYPES = (
    "wav",
    "wavpcm",
    "flac",
    "mp3",
    "ogg",
    "vorbis",
    "opus",
    "sph",
    "nist",
    "aiff",
)  # that say what they hold


@dataclass(frozen=True)
class Piped:
    """What a command reads."""

    file: str
    channel: int | None = None  # counted from 0
    mixed: bool = False  # all channels become one
    rate: int | None = None  # Hz; None: the file's own


class UnknownOption(Exception):
    """The command does something that is not understood."""


def parse_pipe(value: str) -> Piped | None:
    """What an entry `command … |` means; None if that is not understood."""
    command = QUIET.sub(" ", value.strip().removesuffix("|").rstrip() + " ").strip()
    if SHELL.search(command):
        return None
    try:
        stages = [shlex.split(stage) for stage in command.split("|")]
        found = None
        for stage in stages:
            found = _stage(stage, found)
    except (UnknownOption, ValueError, IndexError, StopIteration):
        return None
    return found


def _stage(words: list[str], before: Piped | None) -> Piped:
    program, arguments = words[0].rpartition("/")[2], words[1:]
    if program not in PROGRAMS or (before is not None and program != "sox"):
        raise UnknownOption(program)
    return PROGRAMS[program](arguments, before)


def _cat(arguments: list[str], before: Piped | None) -> Piped:
    (file,) = arguments
    return _file(file, None)


def _flac(arguments: list[str], before: Piped | None) -> Piped:
    flags = {"--decode", "--stdout", "--silent", "--totally-silent"}
    *options, file = arguments
    if not all(option in flags or re.fullmatch(r"-[cdsF]+", option) for option in options):
        raise UnknownOption(options)
    short = "".join(option for option in options if option not in flags)
    if not ("d" in short or "--decode" in options) or not ("c" in short or "--stdout" in options):
        raise UnknownOption("without -d and -c")
    return _file(file, None)


def _sph2pipe(arguments: list[str], before: Piped | None) -> Piped:
    *options, file = arguments
    left, channel = iter(options), None
    for option in left:
        if option == "-c":
            channel = {"1": 0, "2": 1}.get(next(left))
            if channel is None:
                raise UnknownOption("-c")
        elif option != "-p" and not (option == "-f" and next(left) in ("wav", "rif")):
            raise UnknownOption(option)
    return replace(_file(file, None), channel=channel)


def _sox(arguments: list[str], before: Piped | None) -> Piped:
    """sox [options] [input's options] input [output's options] - [effects]"""
    left = iter(arguments)
    source = _sox_file(left)[0]
    found = _file(source, before)
    target, rate, channels = _sox_file(left)
    if target not in STANDARD:
        raise UnknownOption(target)
    found = _resampled(found, rate)
    if channels is not None:
        found = _mixed(found, channels)
    for effect in left:
        if effect == "rate":
            value = next(left)
            while value in ("-q", "-l", "-m", "-h", "-v", "-I", "-L", "-M", "-s"):
                value = next(left)
            found = _resampled(found, value)
        elif effect == "channels":
            found = _mixed(found, next(left))
        elif effect == "remix":
            found = _remixed(found, next(left))
        else:
            raise UnknownOption(effect)
    return found


def _sox_file(left: Iterator[str]) -> tuple[str, str | None, str | None]:
    """The next file of a sox command, and the rate and number of channels given for it."""
    rate = channels = None
    for word in left:
        if word in ("-q", "-G", "-D", "-R", "-S", "-L", "--guard", "--no-dither", "--no-show-progress", "-2", "-s"):
            continue
        if re.fullmatch(r"-V[0-6]?", word):
            continue
        if word in ("-b", "--bits", "-e", "--encoding"):
            next(left)
        elif word in ("-t", "--type"):
            if next(left) not in TYPES:
                raise UnknownOption(word)
        elif word in ("-r", "--rate"):
            rate = next(left)
        elif word in ("-c", "--channels"):
            channels = next(left)
        elif word.startswith("-") and word != "-":
            raise UnknownOption(word)
        else:
            return word, rate, channels
    raise UnknownOption("no file")


def _ffmpeg(arguments: list[str], before: Piped | None) -> Piped:
    """ffmpeg [options] -i input [output's options] -"""
    left, found, target = iter(arguments), None, None
    for word in left:
        if word in ("-nostdin", "-y", "-hide_banner", "-nostats", "-vn"):
            continue
        if word in ("-v", "-loglevel", "-threads"):
            next(left)
        elif word == "-i" and found is None:
            found = _file(next(left), None)
        elif found is None or target is not None:
            raise UnknownOption(word)
        elif word == "-f":
            if next(left) != "wav":
                raise UnknownOption(word)
        elif word in ("-acodec", "-c:a", "-codec:a"):
            if not next(left).startswith("pcm_"):
                raise UnknownOption(word)
        elif word in ("-ab", "-b:a", "-sample_fmt"):
            next(left)
        elif word == "-ar":
            found = _resampled(found, next(left))
        elif word == "-ac":
            found = _mixed(found, next(left))
        elif word == "-map_channel":
            channel = re.fullmatch(r"0\.0\.(\d)", next(left))
            if channel is None:
                raise UnknownOption(word)
            found = _remixed(found, str(int(channel[1]) + 1))
        elif word in STANDARD:
            target = word
        else:
            raise UnknownOption(word)
    if found is None or target is None:
        raise UnknownOption("no input or output")
    return found


def _file(name: str, before: Piped | None) -> Piped:
    """What is read first: a file, or what the command before it gives."""
    if name in STANDARD:
        if before is None:
            raise UnknownOption("nothing before it")
        return before
    if before is not None or name.startswith("-") or "://" in name or not name:
        raise UnknownOption(name)
    return Piped(name)


def _resampled(found: Piped, rate: str | None) -> Piped:
    if rate is None:
        return found
    number = re.fullmatch(r"(\d+(?:\.\d+)?)(k?)", rate)
    if number is None or found.rate is not None:
        raise UnknownOption(rate)
    return replace(found, rate=round(float(number[1]) * (1000 if number[2] else 1)))


def _mixed(found: Piped, channels: str) -> Piped:
    if channels != "1":
        raise UnknownOption(channels)
    return replace(found, mixed=found.channel is None)


def _remixed(found: Piped, channel: str) -> Piped:
    if channel == "-":
        return _mixed(found, "1")
    if not re.fullmatch(r"[1-9]", channel) or found.channel is not None or found.mixed:
        raise UnknownOption(channel)
    return replace(found, channel=int(channel) - 1)


PROGRAMS: dict[str, Callable[[list[str], Piped | None], Piped]] = {
    "cat": _cat,
    "flac": _flac,
    "sph2pipe": _sph2pipe,
    "sox": _sox,
    "ffmpeg": _ffmpeg,
}
