"""fewer transcribe: audio files into text or subtitles."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fewer.cli import options


def command(
    audio: Annotated[list[Path], typer.Argument(help="Audio files of any length: WAV, FLAC, OGG, MP3.")],
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
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept for each window; 5 if not given.")] = None,
    length_exponent: options.LengthExponent = None,
    reward: options.Reward = None,
    no_speech: Annotated[
        float, typer.Option(help="Where nobody speaks with a higher probability, unlikely text is left out.")
    ] = 0.6,
    log_prob: Annotated[
        float, typer.Option(help="Text is unlikely if its labels' mean log-probability is lower than this.")
    ] = -1.0,
    longest: Annotated[
        float | None, typer.Option(help="Seconds of a window at the most; 30 if not given, which is Whisper's.")
    ] = None,
    search: Annotated[
        float | None,
        typer.Option(help="A window ends at the quietest place of its last so many seconds; a third of it."),
    ] = None,
    base: options.Base = None,
    language: options.Language = None,
    task: options.Task = "transcribe",
) -> list[Any]:
    """Transcribe audio files of any length, in windows that are cut at pauses.

    A file that cannot be read is told of at the end; the others are transcribed all the same. Returns the transcripts.
    """
    from fewer.adaptation.searching import Models, Wishes, load_search
    from fewer.files import atomic_write
    from fewer.search.beam import SearchOptions
    from fewer.transcription.transcribe import Incomplete, TranscribeOptions, Transcriber, targets
    from fewer.transcription.transcript import Transcript

    paths = targets(audio, output, out)
    system = load_search(
        Models(model, lm, ilm, words, base=base, language=language, task=task),
        Wishes(lm_scale, ilm_scale, words_scale, beam, length_exponent, reward),
        SearchOptions(beam=5),
    )
    transcripts: list[Transcript] = []
    options = TranscribeOptions(no_speech, log_prob, search, longest, align=output != "text")
    for transcript in Transcriber(system, options).transcribe(audio):
        path = paths[len(transcripts)]
        transcripts.append(transcript)
        if not transcript.segments and transcript.problems:
            continue
        if path is not None:
            with atomic_write(path) as stream:
                stream.write(transcript.written(output))
            print(path)
            continue
        if output == "text" and len(audio) > 1:
            print(f"==> {transcript.file} <==")
        print(transcript.written(output), end="", flush=True)
    if any(transcript.problems for transcript in transcripts):
        raise Incomplete(transcripts)
    return transcripts
