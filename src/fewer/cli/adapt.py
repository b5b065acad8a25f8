"""fewer adapt: a recogniser for a domain, from text alone."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fewer.cli import options


def command(
    model: Annotated[
        str,
        typer.Argument(help="The recogniser: one of transformers by folder or hub name, or a folder of `fewer train`."),
    ],
    out: Annotated[Path, typer.Argument(help="The bundle: a folder to write.")],
    text: Annotated[
        list[Path] | None, typer.Option(help="Text of the domain: plain, gzip, xz, or a manifest. Repeat.")
    ] = None,
    lm: Annotated[
        str | None,
        typer.Option(help="Instead of text: an n-gram file of labels or words, a folder of `fewer train`, or hf:NAME."),
    ] = None,
    words: Annotated[
        Path | None, typer.Option(help="Hotwords, names and terms to reward: lines `term`, or `term`, tab, weight.")
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(help=f"A set with transcripts, by whose WER method and scales are chosen: {options.SET}."),
    ] = None,
    general: Annotated[
        Path | None, typer.Option(help="A set of other speech: its WER is reported, with and without.")
    ] = None,
    transcripts: Annotated[
        Path | None, typer.Option(help="Text or manifest of such speech as the model was trained on, for internal LMs.")
    ] = None,
    audio: Annotated[
        Path | None, typer.Option(help="The same without transcripts, a set: the model's own are taken.")
    ] = None,
    general_text: Annotated[
        Path | None, typer.Option(help="Cased text of any kind: how names are cased; what lodr subtracts.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Try only this: none, sf (shallow fusion), or a method below. Repeat.")
    ] = None,
    style: Annotated[
        Literal["auto", "none"], typer.Option(help="none: the text is written as the model writes already.")
    ] = "auto",
    order: Annotated[int, typer.Option(min=1, help="Length of the longest n-grams.")] = 4,
    beam: Annotated[int, typer.Option(min=1, help="Hypotheses kept for each utterance.")] = 5,
    budget: Annotated[int, typer.Option(min=2, help="Decodes of the dev set for each method at most.")] = 5,
    normalise: Annotated[
        str | None, typer.Option(help="As in `fewer score`; if not given: english or basic for Whisper, else none.")
    ] = None,
    language: Annotated[str | None, typer.Option(help="What is spoken, for a multilingual Whisper: en, de, …")] = None,
    task: options.Task = "transcribe",
    device: options.Device = "auto",
    precision: options.Precision = "auto",
) -> None:
    """Adapt a recogniser to a domain with text alone: language model, internal language model and scales in one folder.

    fewer adapt openai/whisper-tiny.en adapted --text domain.txt --dev dev.csv

    Without --dev the usual scales are taken. With it, nothing is added unless the dev set improves significantly.
    """
    import fewer

    bundle = fewer.adapt(
        model,
        out,
        text=text,
        lm=lm,
        words=words,
        dev=dev,
        general=general,
        transcripts=transcripts,
        audio=audio,
        general_text=general_text,
        method=method,
        style=style,
        order=order,
        beam=beam,
        budget=budget,
        normalise=normalise,
        language=language,
        task=task,
        device=device,
        precision=precision,
    )
    facts = bundle.model_dump(mode="json")
    for line in summary(facts):
        print(line)
    print(f"use it: fewer transcribe call.wav --model {out}")
    print(f"{out}: {outcome(facts)}")


def summary(facts: dict[str, Any]) -> list[str]:
    """What was found, for people."""
    lines = []
    if (dev := facts["dev"]) is not None:
        for name, result in dev["methods"].items():
            scales = ", ".join(f"{key} {value:g}" for key, value in result["parameters"].items() if key != "aed")
            interval = f"{result['low']:.2f} to {result['high']:.2f}"
            lines.append(f"{dev['set']}, {name}: WER {result['wer']:.2f} % ({interval}) with {scales}")
        if "words" in dev:
            found = dev["words"]
            lines.append(
                f"{dev['set']}, words: WER {found['wer']:.2f} % with scale {found['scale']:g}, "
                f"{found['wer_without']:.2f} % without"
            )
    if (general := facts["general"]) is not None:
        none, adapted = general["none"]["wer"], general["adapted"]["wer"]
        lines.append(f"{general['set']}: WER {adapted:.2f} % adapted, {none:.2f} % without")
    scales = ", ".join(f"{term} {scale:g}" for term, scale in facts["scales"].items()) or "nothing"
    tuned = "" if facts["dev"] is not None else " (the usual scales; give --dev to choose them)"
    lines.append(f"method {facts['method']}: {scales}, reward {facts['length']['reward']:g}{tuned}")
    return lines


def outcome(facts: dict[str, Any]) -> str:
    """What the bundle will do, in one line."""
    dev, used = facts["dev"], [term for term, scale in facts["scales"].items() if scale]
    parts = {"lm": "adds the language model", "ilm": "subtracts the internal one", "words": "rewards hotwords"}
    does = ", ".join(text for term, text in parts.items() if term in used)
    if dev is None:
        return f"{does}, with the usual scales; its gain was not measured (give --dev to measure it)"
    before, after = dev["plain"]["wer"], dev["methods"][facts["method"]]["wer"]
    if "words" in used:
        after = dev["words"]["wer"]
    change = f"{dev['set']} WER {before:.1f} → {after:.1f} %"
    if used:
        return f"{does}; {change}"
    if dev.get("length_tuned"):
        return f"adds no language model, only a length reward; {change}"
    return f"adds nothing: behaves as plain {Path(facts['base']['source']).name} ({dev['set']} WER {before:.1f} %)"
