"""fewer transcribe: audio files into text or subtitles."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fewer.cli import options


def command(
    audio: Annotated[
        list[Path],
        typer.Argument(
            help="Audio or video files of any length (WAV, MP3, M4A, MP4, WebM, …), folders of them, or - for standard "
            "input."
        ),
    ],
    model: Annotated[
        str, typer.Option(help="The recogniser: a bundle of `fewer adapt`, a Whisper, or a folder of `fewer train`.")
    ],
    output: Annotated[
        Literal["text", "json", "srt", "vtt"],
        typer.Option(help="Text, JSON with times and scores, or subtitles."),
    ] = "text",
    out: Annotated[
        Path | None, typer.Option(help="Folder for a file of each recording's name; printed if not given.")
    ] = None,
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
    ] = 0.6,
    log_prob: Annotated[
        float, typer.Option(help="Text is unlikely if its labels' mean log-probability is lower than this.")
    ] = -1.0,
    longest: Annotated[
        float | None, typer.Option(help="Seconds of a window at most; 30 if not given, which is Whisper's.")
    ] = None,
    search: Annotated[
        float | None,
        typer.Option(help="A window ends at the quietest place of its last so many seconds; a third of it."),
    ] = None,
    base: options.Base = None,
    language: options.Language = None,
    task: options.Task = "transcribe",
) -> None:
    """Transcribe audio files of any length, in windows that are cut at pauses.

    Files that cannot be read are listed at the end; the others are transcribed all the same. Stopped or killed, a
    command with --out goes on where it was when it is started again.
    """
    import fewer
    from fewer.files import atomic_write
    from fewer.transcription.inputs import gather, targets
    from fewer.transcription.journal import unfinished
    from fewer.transcription.transcribe import Incomplete

    inputs = gather(audio)
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
    )
    with unfinished(paths) as journal:
        transcripts = loaded.transcribe(
            [one.file for one in inputs],
            no_speech=no_speech,
            log_prob=log_prob,
            longest=longest,
            search=search,
            word_times=output != "text",
            confidences=output == "json",
            journal=journal,
        )
        for transcript, path in zip(transcripts, paths, strict=True):
            if transcript.problems and not transcript.duration:
                continue
            if path is not None:
                with atomic_write(path) as stream:
                    stream.write(transcript.written(output))
                print(path)
                continue
            if output == "text" and len(inputs) > 1:
                print(f"==> {transcript.file} <==")
            print(transcript.written(output), end="", flush=True)
    if any(transcript.problems for transcript in transcripts):
        raise Incomplete({transcript.file: transcript.problems for transcript in transcripts})
