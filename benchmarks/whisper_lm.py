"""Run by `benchmarks/whisper.py --against PYTHON` in an environment that has the package whisper-lm-transformers.

    PYTHON -P benchmarks/whisper_lm.py MODEL AUDIO.npz LM.arpa BEAM

One utterance at a time (its processor knows no batches), one thread, float32; mel features are made beforehand.
Prints JSON: versions, CPU-seconds of the best of two runs without and with the LM, and the texts.
"""

import json
import sys
import time
from importlib.metadata import version

import kenlm
import numpy as np
import torch
from transformers import WhisperFeatureExtractor, WhisperTokenizerFast
from whisper_lm_transformers import WhisperWithLM


def main() -> None:
    folder, audio, arpa, beam = sys.argv[1], np.load(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(1)
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    tokenizer = WhisperTokenizerFast.from_pretrained(folder)
    model = WhisperWithLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
    lm = kenlm.Model(arpa)
    mels = [
        extractor(audio[name], sampling_rate=16000, return_tensors="pt").input_features for name in sorted(audio.files)
    ]
    seconds, texts = {}, {}
    with torch.inference_mode():
        for name, given in (("alone", None), ("lm", lm)):
            runs = []
            for _ in range(2):
                began, found = time.process_time(), []
                for mel in mels:
                    labels = model.generate(tokenizer, lm_model=given, lm_alpha=0.1, input_features=mel, num_beams=beam)
                    found += tokenizer.batch_decode(labels, skip_special_tokens=True)
                runs.append(time.process_time() - began)
            seconds[name], texts[name] = min(runs), found
    packages = ("whisper-lm-transformers", "transformers", "torch", "kenlm")
    print(json.dumps({"versions": {name: version(name) for name in packages}, "seconds": seconds, "texts": texts}))


if __name__ == "__main__":
    main()
