"""Miniature corpora on disk, laid out as the real ones are; speech is tones, so that one can hear what was cut out."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from lhotse import MonoCut
from lhotse.serialization import deserialize_item

from fewer.data.audio import load_audio

Tones = list[tuple[float, float]]  # (seconds, Hz), one after the other; 0 Hz is silence


def tone(tones: Tones, rate: int) -> np.ndarray:
    pieces = [0.4 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate) for seconds, hertz in tones]
    return np.concatenate(pieces)


def write_audio(path: Path, *channels: Tones, rate: int = 16000) -> Path:
    """WAV, FLAC or, for .sph, NIST SPHERE: 8-bit µ-law for two channels (telephone), 16-bit PCM for one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = np.stack([tone(tones, rate) for tones in channels], axis=1)
    if path.suffix == ".sph":
        subtype = "ULAW" if len(channels) == 2 else "PCM_16"
        soundfile.write(path, samples, rate, format="NIST", subtype=subtype)
    else:
        soundfile.write(path, samples, rate)
    return path


def write_lines(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def pitch(cut: MonoCut) -> float:
    """The strongest frequency (Hz) in a cut, read as training reads it."""
    samples = load_audio(cut, cut.sampling_rate).numpy()
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * cut.sampling_rate / len(samples)


def read_values(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_cuts(path: Path) -> list[MonoCut]:
    return [deserialize_item(value) for value in read_values(path)]


def texts(path: Path) -> dict[str, str]:
    return {cut.id: cut.supervisions[0].text for cut in read_cuts(path)}


def librispeech(root: Path) -> Path:
    """Two sets: train-clean-5 with speakers 19 and 103, dev-clean with 84 and 1272."""
    corpus = root / "LibriSpeech"
    utterances = {
        "train-clean-5/19/198/19-198-0000": "NORTHANGER ABBEY",
        "train-clean-5/19/198/19-198-0001": "THIS LITTLE WORK WAS FINISHED",
        "train-clean-5/103/1240/103-1240-0000": "CHAPTER ONE MISSUS RACHEL LYNDE IS SURPRISED",
        "dev-clean/1272/128104/1272-128104-0000": "MISTER QUILTER IS THE APOSTLE OF THE MIDDLE CLASSES",
        "dev-clean/84/121123/84-121123-0000": "GO DO YOU HEAR",
        "dev-clean/84/121123/84-121123-0001": "BUT IN LESS THAN FIVE MINUTES",
    }
    for number, (path, text) in enumerate(utterances.items()):
        write_audio(corpus / f"{path}.flac", [(0.3 + 0.1 * number, 300 + 100 * number)])
        id = Path(path).name
        with open((corpus / path).with_name(f"{id.rpartition('-')[0]}.trans.txt"), "a") as stream:
            stream.write(f"{id} {text}\n")
    write_lines(corpus / "SPEAKERS.TXT", ";ID  |SEX| SUBSET           |MINUTES| NAME", "19 | F | train-clean-5 | 5 | X")
    return corpus


def write_lm_text(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def tedlium2(root: Path) -> Path:
    corpus = root / "TEDLIUM_release2"
    write_audio(corpus / "train/sph/AaronHuey_2010X.sph", [(1, 0), (1, 440), (1, 660), (0.5, 0)])
    write_lines(
        corpus / "train/stm/AaronHuey_2010X.stm",
        "AaronHuey_2010X 1 AaronHuey_2010X 1.00 2.00 <o,f0,male> i 'm here today to show my photographs",
        "AaronHuey_2010X 1 AaronHuey_2010X 2.00 3.00 <o,f0,male> of the(2) lakota <sil> don 't <unk> {NOISE} know",
    )
    write_audio(corpus / "dev/sph/AlGore_2009.sph", [(0.5, 0), (1, 500), (1, 800)])
    write_lines(
        corpus / "dev/stm/AlGore_2009.stm",
        "AlGore_2009 1 inter_segment_gap 0 0.50 <o,,unknown> ignore_time_segment_in_scoring",
        "AlGore_2009 1 AlGore_2009 0.50 1.50 <F0_M> last year i showed these two slides so that",
        "AlGore_2009 1 AlGore_2009 1.50 2.50 <F0_M> ignore_time_segment_in_scoring",
    )
    (corpus / "test/sph").mkdir(parents=True)
    write_audio(corpus / "test/sph/BillGates_2010.sph", [(1, 700)])
    write_lines(
        corpus / "test/stm/BillGates_2010.stm", "BillGates_2010 1 BillGates_2010 0 1 <o,f0,male> the parents ' o 'clock"
    )
    write_lines(corpus / "TEDLIUM.152k.dic", "i'm AY M")
    write_lm_text(corpus / "LM/commoncrawl-9pc.en.gz", "it 's what they 're for </s>", "we don 't know </s>")
    write_lm_text(corpus / "LM/TED.en.gz", "thank you </s>", "</s>", "the parents ' house at eight o 'clock </s>")
    return corpus


def switchboard(root: Path) -> Path:
    """Conversations 2001 and 2005 with sides A and B, audio on two of the four discs."""
    write_audio(
        root / "swb1_d1/data/sw02001.sph",
        [(0.98, 0), (1, 300), (1, 500), (0.5, 0)],
        [(0.5, 0), (1.48, 1000), (1, 1500), (0.5, 0)],
        rate=8000,
    )
    write_audio(root / "swb1_d2/data/sw02005.sph", [(1, 700), (1, 0)], [(1, 0), (1, 900)], rate=8000)
    folder = root / "swb_ms98_transcriptions/20"
    write_lines(
        folder / "2001/sw2001A-ms98-a-trans.text",
        "sw2001A-ms98-a-0001 0.000000 0.980000 [silence]",
        "sw2001A-ms98-a-0002 0.980000 1.980000 hi um yeah i'd [laughter-like] to ab[solute]- <b_aside> them_1",
        "sw2001A-ms98-a-0003 1.980000 2.980000 [noise] um-hum [it'n/isn't] {yuppiedom} <e_aside>",
    )
    write_lines(
        folder / "2001/sw2001B-ms98-a-trans.text",
        "sw2001B-ms98-a-0001 0.500000 1.980000 -[an]y [vocalized-noise] uh-huh",
        "sw2001B-ms98-a-0002 1.980000 2.980000 [laughter] [noise]",
    )
    write_lines(folder / "2005/sw2005A-ms98-a-trans.text", "sw2005A-ms98-a-0001 0.000000 1.000000 okay")
    write_lines(folder / "2005/sw2005B-ms98-a-trans.text", "sw2005B-ms98-a-0001 1.000000 2.000000 right")
    for side in ("2001/sw2001A", "2001/sw2001B", "2005/sw2005A", "2005/sw2005B"):
        write_lines(folder / f"{side}-ms98-a-word.text", f"{side[5:]}-ms98-a-0001 0.000000 0.980000 [silence]")
    write_lines(root / "swb_ms98_transcriptions/sw-ms98-dict.text", "aardvark aa r d v aa r k")
    return root


def fisher(root: Path) -> Path:
    write_lines(
        root / "LDC2004T19/fe_03_p1_tran/data/trans/000/fe_03_00004.txt",
        "# fe_03_00004.sph",
        "# Transcribed at the LDC",
        "",
        "7.38 8.78 A: an- so the topic is ",
        "",
        "8.74 10.56 B: (( uh-huh )) [laughter] mhm I watch C._N._N. and T._V.s",
        "",
        "11.00 12.00 A: [noise]",
    )
    write_lines(
        root / "LDC2004T19/fe_03_p1_tran/data/trans/000/fe_03_00001.txt",
        "# fe_03_00001.sph",
        "# Transcribed by BBN/WordWave",
        "",
        "3.76 5.54 A: and i generally prefer 'em 'cause *mandatory okay?",
        "6.00 7.00 B: (( ))",
    )
    write_lines(root / "LDC2004T19/fe_03_p1_tran/doc/fe_03_p1_calldata.tbl", "CALL_ID,DATE_TIME,TOPICID")
    write_lines(root / "LDC2004T19/fe_03_p1_tran/data/bbn_orig/000/auto-segmented/fe_03_00001.txt", "not a transcript")
    write_lines(
        root / "LDC2005T19/fe_03_p2_tran/data/trans/058/fe_03_05851.txt",
        "# fe_03_05851.sph",
        "# Transcribed by BBN/WordWave",
        "",
        "0.43 2.02 B: hello <german (( ja wohl )) > this is",
    )
    return root


def hub5e00(root: Path) -> Path:
    english = root / "LDC2002S09/hub5e_00/english"
    write_audio(english / "en_4156.sph", [(1, 300), (1, 400), (1, 0)], [(1, 0), (1, 900), (1, 0)], rate=8000)
    write_audio(english / "sw_4390.sph", [(1, 600), (1, 0)], [(2, 1200)], rate=8000)
    write_lines(english / "hub5e_00.pem", "en_4156 A unknown_speaker 0.00 1.00")
    write_audio(root / "LDC2002S09/hub5e_00/mandarin/ma_0671.sph", [(1, 300)], [(1, 300)], rate=8000)
    reference = root / "LDC2002T43/reference"
    write_lines(
        reference / "hub5e00.english.000405.stm",
        ';; CATEGORY "0" "Corpus" ""',
        ';; LABEL "en" "CallHome" ""',
        "en_4156 A en_4156_A 0.00 1.00 <O,en,F,en-F>  HE IS A (%HESITATION) POLICE OFFICER ((I-)",
        "en_4156 A en_4156_A 1.00 2.00 <O,en,F,en-F>  (%HESITATION)",
        "en_4156 A en_4156_A 2.00 3.00 <O,en,F,en-F>  IGNORE_TIME_SEGMENT_IN_SCORING",
        "en_4156 B en_4156_B 1.00 2.00 <O,en,M,en-M>  <B_ASIDE> MHM { YOU KNOW / Y'KNOW } <E_ASIDE>",
        "sw_4390 A sw_4390_A 0.00 1.00 <O,sw,F,sw-F>  UH-HUH THE T. V.",
        "sw_4390 B sw_4390_B 0.50 1.50 <O,sw,M,sw-M>  RIGHT",
    )
    write_lines(reference / "en20000405_hub5.glm", ";; NIST", "[MHM] => [UH-HUH] / [ ] __ [ ]")
    write_lines(reference / "english/en_4156.txt", "#Language: eng", "0.0 1.0 A: he is a %uh police officer")
    return root


def hub5e01(root: Path) -> tuple[Path, Path]:
    """The disc, and a folder with what NIST gives."""
    disc = root / "LDC2002S13/hub5e_01"
    write_audio(disc / "english/sw4653.sph", [(1, 300), (1, 500)], [(1, 0), (1, 700)], rate=8000)
    write_lines(disc / "doc/pems/hub5e_01.pem", "sw4653 A unknown_speaker 0.000000 0.999999")
    write_lines(
        root / "nist/hub5e01.english.010402.stm",
        ';; LABEL "P0" "Switchboard-1" ""',
        "sw4653 A sw4653_A 0.0 0.999999 <O,M,P0,P0-M> YEAH WHO ELSE MONKEYS",
        "sw4653 B sw4653_B 1.000001 2.0 <O,F,P0,P0-F> NO",
    )
    write_lines(root / "nist/en20010117_hub5.glm", ";; NIST")
    return root / "LDC2002S13", root / "nist"


def rt03(root: Path) -> Path:
    data = root / "LDC2007S10/data"
    write_audio(data / "audio/eval03/english/cts/fsh_60262.sph", [(1, 300), (1, 0)], [(1, 0), (1, 800)], rate=8000)
    write_audio(data / "audio/eval03/english/cts/sw_45097.sph", [(1, 500), (1, 0)], [(1, 0), (1, 900)], rate=8000)
    write_audio(data / "audio/eval03/english/bnews/20010206.sph", [(1, 300)])
    references = data / "references/eval03/english/cts"
    write_lines(
        references / "fsh.stm",
        ';; CATEGORY "0" "" ""',
        "fsh_60262 1 inter_segment_gap 1.00 2.00 <o,f0,female> ",
        "fsh_60262 1 fsh_60262_1 0.00 1.00 <o,f0,female> hello (%hesitation) this is t. v.",
        "fsh_60262 2 fsh_60262_2 1.00 2.00 <o,f0,male> mhm",
    )
    write_lines(
        references / "sw.stm",
        "sw_45097 1 sw_45097_1 0.00 1.00 <o,f0,female> right",
        "sw_45097 2 sw_45097_2 1.00 2.00 <o,f0,male> ignore_time_segment_in_scoring",
    )
    write_lines(data / "trans_rules/en20030506.glm", ";; rules")
    write_lines(data / "trans_rules/ar20030505.glm", ";; Arabic")
    return root / "LDC2007S10"


def speechocean762(root: Path) -> Path:
    """As on OpenSLR: train and test, with paths relative to the corpus."""
    corpus = root / "speechocean762"
    for split, speaker, id, text, hertz in (
        ("train", "0001", "000010011", "WE CALL IT BEAR", 400),
        ("train", "0005", "000050003", "MARK IS GOING TO SEE ELEPHANT", 500),
        ("test", "0003", "000030012", "MAKE SURE YOU STAND STILL", 600),
    ):
        write_audio(corpus / f"WAVE/SPEAKER{speaker}/{id}.WAV", [(0.5, hertz)])
        for name, line in (
            ("wav.scp", f"{id}\tWAVE/SPEAKER{speaker}/{id}.WAV"),
            ("text", f"{id}\t{text}"),
            ("utt2spk", f"{id} {speaker}"),
            ("spk2gender", f"{speaker}\tm"),
            ("spk2age", f"{speaker}\t6"),
        ):
            (corpus / split).mkdir(parents=True, exist_ok=True)
            with open(corpus / split / name, "a") as stream:
                stream.write(f"{line}\n")
    write_lines(corpus / "resource/scores.json", "{}")
    return corpus


def kaldi(root: Path) -> Path:
    """A recipe's data/: train with segments of telephone sides, dev with one file per utterance."""
    call = write_audio(root / "audio/sw02001.sph", [(1, 300), (1, 500)], [(1, 700), (1, 900)], rate=8000)
    train = root / "data/train"
    write_lines(
        train / "wav.scp",
        f"sw02001-A /opt/kaldi/tools/sph2pipe_v2.5/sph2pipe -f wav -p -c 1 {call} |",
        f"sw02001-B sph2pipe -f wav -p -c 2 {call} |",
    )
    write_lines(
        train / "segments",
        "sw02001-A_000000-000100 sw02001-A 0.00 1.00",
        "sw02001-A_000100-000200 sw02001-A 1.00 2.00",
        "sw02001-B_000100-000200 sw02001-B 1.00 -1",
    )
    write_lines(
        train / "text",
        "sw02001-B_000100-000200 well   yeah",
        "sw02001-A_000000-000100 hi there",
        "sw02001-A_000100-000200 okay",
    )
    write_lines(
        train / "utt2spk",
        "sw02001-A_000000-000100 sw02001-A",
        "sw02001-A_000100-000200 sw02001-A",
        "sw02001-B_000100-000200 sw02001-B",
    )
    write_lines(train / "spk2gender", "sw02001-A f", "sw02001-B m")
    dev = root / "data/dev"
    write_audio(dev / "wav/utt1.wav", [(0.5, 440)])
    write_audio(root / "corpus/utt2.flac", [(0.75, 550)])
    write_lines(dev / "wav.scp", "utt1 wav/utt1.wav", f"utt2 {root}/corpus/utt2.flac")
    write_lines(dev / "text", "utt1 Hello", "utt2 Good bye")
    write_lines(dev / "utt2spk", "utt1 anna", "utt2 bert")
    (root / "data/lang").mkdir()
    return root / "data"
