"""fewer transcribe: audio files into text or subtitles."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fewer.cli import options
from fewer.progress import say, write

if TYPE_CHECKING:
    from fewer.api.results import Transcription
    from fewer.transcription.transcript import Output


def command(
    audio: Annotated[
        list[Path],
        typer.Argument(
            help="Audio or video files of any length (WAV, MP3, M4A, MP4, WebM, …), folders of them, or - for standard "
            "input."
        ),
    ],
    model: Annotated[
        str,
        typer.Option(help="The recogniser: a bundle of `fewer adapt`, one of transformers, a folder of `fewer train`."),
    ],
    output: Annotated[
        Literal["text", "json", "srt", "vtt", "tsv"],
        typer.Option(help="Text, JSON with times and scores, subtitles, or a table with times in milliseconds."),
    ] = "text",
    out: Annotated[Path | None, typer.Option(help="Folder for a file of each recording's name.")] = None,
    lm: options.Lm = None,
    lm_scale: options.LmScale = None,
    ilm: options.Ilm = None,
    ilm_scale: options.IlmScale = None,
    words: options.Words = None,
    words_scale: options.WordsScale = None,
    beam: options.Beam = None,
    length_exponent: options.LengthExponent = None,
    reward: options.Reward = None,
    no_speech: Annotated[
        float, typer.Option(help="Where nobody speaks with a higher probability, unlikely text is dropped.")
    ] = 0.5,
    log_prob: Annotated[
        float, typer.Option(help="Text is unlikely if its labels' mean log-probability is lower than this.")
    ] = -0.5,
    longest: Annotated[
        float | None, typer.Option(help="Seconds of a window at most; 30 if not given, which is Whisper's.")
    ] = None,
    search: Annotated[
        float | None,
        typer.Option(help="A window ends at the quietest place of its last so many seconds; a third of it."),
    ] = None,
    base: options.Base = None,
    language: Annotated[
        str | None, typer.Option(help="What is spoken, such as de; a multilingual Whisper detects it if not given.")
    ] = None,
    task: options.Task = "transcribe",
    engine: options.Engine = "local",
    shard: Annotated[str | None, typer.Option(help="i/n: only every n-th file, from the i-th on.")] = None,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
) -> None:
    """Transcribe audio files of any length, in windows that are cut at pauses.

    Text is printed as it is recognised; with --out, or for JSON and subtitles, it is shown on standard error meanwhile.

    Files that cannot be read are listed at the end; the others are transcribed all the same. Of a damaged file, what
    can be read is written to NAME.partial.txt (or .srt, …). Stopped or killed, a command with --out goes on where it
    was when it is started again.
    """
    import fewer
    from fewer.compute.engines import started
    from fewer.decoding.parts import parse_share
    from fewer.files import atomic_write
    from fewer.transcription.inputs import gather, targets
    from fewer.transcription.journal import partial, unfinished
    from fewer.transcription.transcribe import Incomplete

    inputs = gather(audio)
    if shard is not None:
        part = parse_share(shard)
        inputs = [one for number, one in enumerate(inputs) if part.has(number)]
    paths = targets(inputs, output, out)
    loaded = fewer.load(
        model,
        lm=lm,
        lm_scale=lm_scale,
        ilm=ilm,
        ilm_scale=ilm_scale,
        words=words,
        words_scale=words_scale,
        beam=beam,
        length_exponent=length_exponent,
        reward=reward,
        base=base,
        language=language,
        task=task,
        device=device,
        precision=precision,
    )
    with started(engine, loaded.recogniser.device) as workers, unfinished(paths, workers.first) as journal:
        workers.wait()  # until the first process has cleaned up
        transcripts = loaded.transcribe(
            [one.file for one in inputs],
            no_speech=no_speech,
            log_prob=log_prob,
            longest=longest,
            search=search,
            word_times=output != "text",
            confidences=output == "json",
            journal=journal,
            engine=workers,
        )
        for transcript, path in zip(transcripts, paths, strict=True):
            if not workers.first:
                _ = transcript.text  # its share of the work
                continue
            try:
                _show(transcript, output, path is None, len(inputs) > 1)
            except (KeyboardInterrupt, SystemExit):
                _keep(transcript.so_far(output), output, path)
                raise
            if path is not None and not _is_lost(transcript):
                target = partial(path) if transcript.problems else path
                with atomic_write(target) as stream:
                    stream.write(transcript.written(output))
                write(str(target))
                if target == path:
                    partial(path).unlink(missing_ok=True)  # of a run that was stopped
        workers.wait()
    if workers.first and any(transcript.problems for transcript in transcripts):
        raise Incomplete({transcript.file: transcript.problems for transcript in transcripts})


def _show(transcript: "Transcription", output: "Output", printed: bool, several: bool) -> None:
    """Print a recording's segments as they are recognised; formats for programs go to standard output as a whole.

    printed: whether the format that was asked for goes to standard output; if not, only people look at it.
    """
    from fewer.transcription.subtitles import clock
    from fewer.transcription.transcript import TSV_HEAD

    lines = printed and output in ("text", "tsv")
    tell = write if lines else say
    heads = [f"==> {transcript.file} <=="] if several and (output == "text" or not printed) else []
    heads += [TSV_HEAD.rstrip()] if lines and output == "tsv" else []
    for segment in transcript:
        while heads:
            tell(heads.pop(0))
        if lines:
            write(segment.text if output == "text" else segment.to_tsv().rstrip())
        else:
            say(f"[{clock(segment.start)} --> {clock(segment.end)}] {segment.text.strip()}")
    if _is_lost(transcript):
        return
    for head in heads:
        tell(head)
    if printed and not lines:
        write(transcript.written(output).rstrip("\n"))


def _keep(text: str, output: "Output", path: Path | None) -> None:
    """Write or print what was recognised before the command was stopped, unless it is printed already."""
    from fewer.files import atomic_write
    from fewer.transcription.journal import partial

    if path is not None and text:
        with atomic_write(partial(path)) as stream:
            stream.write(text)
        say(f"the transcript so far is in {partial(path)}")
    elif text and output not in ("text", "tsv"):
        write(text.rstrip("\n"))


def _is_lost(transcript: "Transcription") -> bool:
    """Whether nothing of the recording could be read."""
    return bool(transcript.problems) and not transcript.duration
