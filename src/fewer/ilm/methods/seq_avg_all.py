"""E_x[h] over all that the encoder hears, which for Whisper is 30 seconds, whatever the utterance's length."""

from fewer.ilm.method import IlmMethod
from fewer.ilm.methods.seq_avg import SequenceMeanContext

METHOD = IlmMethod(
    "seq_avg_all",
    "Internal LM: as seq_avg, with the frames that Whisper's encoder hears beyond the utterance.",
    symbol="E_x[h], all frames",
    order=(3, 5),
    context=lambda config, recogniser: SequenceMeanContext(
        recogniser.sizes.context, config.zero_first(recogniser), hear_only=recogniser.hear_only, attended=True
    ),
)
