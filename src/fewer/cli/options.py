"""Options that several commands have, so that they mean the same everywhere."""

from pathlib import Path
from typing import Annotated, Literal

import typer

SET = (
    "a manifest, a table (.csv, .tsv, NeMo's .jsonl), audio with .txt beside it, a Kaldi, Shar or saved-dataset folder"
)
Lm = Annotated[str | None, typer.Option(help="LM: a folder of `fewer train`, an n-gram file, or hf:NAME.")]
LmScale = Annotated[
    float | None, typer.Option(help="λ1, the weight of the LM. Default: 0.3; for Whisper without an ILM 0.13.")
]
Ilm = Annotated[Path | None, typer.Option(help="Internal language model: a folder of `fewer ilm`.")]
IlmScale = Annotated[float | None, typer.Option(help="λ2, of what is subtracted. Default: 0.2; for Whisper 0.3.")]
Words = Annotated[Path | None, typer.Option(help="Hotwords to reward: lines `term`, or `term`, tab, weight.")]
WordsScale = Annotated[
    float | None, typer.Option(help="What their weights are multiplied by. Default: 1; for Whisper 1.5.")
]
LengthExponent = Annotated[
    float | None, typer.Option(help="Scores are divided by length to this power; 0: not. Default: 1; for Whisper 1.5.")
]
Reward = Annotated[float | None, typer.Option(help="Added to the score for every label; 0 if not given.")]
MaxLength = Annotated[int | None, typer.Option(help="Labels at most; encoder frames if not given.")]
EndBy = Annotated[
    list[str] | None,
    typer.Option(
        help="Terms that score the end label (aed, lm, ilm, ctc); repeat. Default: all terms; for Whisper: aed only."
    ),
]
Base = Annotated[str | None, typer.Option(help="Where the model of a bundle is, if not where it was.")]
Language = Annotated[str | None, typer.Option(help="What is spoken, for a multilingual Whisper, such as de.")]
Task = Annotated[Literal["transcribe", "translate"], typer.Option(help="What a multilingual Whisper does.")]
Normalise = Annotated[
    str, typer.Option(help="none, librispeech, english (as for Whisper), english:NORMALIZER.JSON, basic or glm:FILE.")
]
Engine = Annotated[
    str, typer.Option(help="Who does the work: local, processes:N, torchrun, ray or ray:ADDRESS (docs/cluster.md).")
]
Beam = Annotated[int | None, typer.Option(help="Hypotheses kept. Default: 5 for Whisper, else 12.")]
Device = Annotated[
    str, typer.Option(help="Where models compute: auto (a GPU if there is one), cpu, cuda, cuda:1 or mps.")
]
Precision = Annotated[
    Literal["auto", "float32", "bfloat16", "float16", "int8"],
    typer.Option(
        help="Of the encoder: float32, bfloat16, float16 (GPUs), int8 (Whisper on CPUs). auto: int8 or float32."
    ),
]
