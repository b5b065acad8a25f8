"""CPU-seconds of one full training step (forward, backward, Adam) and its share of the machine's matmul peak.

    python benchmarks/train_step.py [--threads 1] [--quick]

6×256 BLSTM, decoder 512, energy 512, embedding 256, readout 512, V = 1000; 8 utterances × 600 frames, 30 labels.
The last line is JSON with `cpu_seconds`, `peak_share` and the peak (`gflops`).
"""

import argparse
import json
import resource

import torch
from machine import PEAK, QUICK, cpu_seconds, matmul_peak, scaled

from fewer.models.aed import AED, AedConfig
from fewer.models.decoder import DecoderConfig
from fewer.models.encoder import EncoderConfig
from fewer.training.objective import ctc_loss_sum, l2, smoothed_cross_entropy

CONFIG = AedConfig(
    vocab_size=1000,
    encoder=EncoderConfig(layers=6, size=256),
    decoder=DecoderConfig(size=512, embedding=256, readout=512),
    energy=512,
)


class Step:
    """A model, a batch, and one training step on it."""

    def __init__(self, config: AedConfig, utterances: int, frames: int, labels: int):
        torch.manual_seed(0)
        self.model = AED(config).train()
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)
        self.features = torch.randn(utterances, frames, config.encoder.features)
        self.lengths = torch.full((utterances,), frames)
        self.labels = torch.randint(1, config.vocab_size, (utterances, labels))
        self.label_lengths = torch.full((utterances,), labels)

    def forward(self) -> torch.Tensor:
        encoded = self.model.encode(self.features, self.lengths)
        log_probs = self.model.teacher_forced(encoded, self.labels).logits.log_softmax(-1)
        ce = smoothed_cross_entropy(log_probs, self.labels, self.label_lengths, 0.1)
        ctc = ctc_loss_sum(self.model.ctc_log_probs(encoded), encoded.lengths, self.labels, self.label_lengths)
        return (ce + ctc + l2(self.model.l2_parameters())) / self.label_lengths.sum()

    def __call__(self) -> None:
        self.optimiser.zero_grad()
        self.forward().backward()
        self.optimiser.step()


def lstm_flops(config: AedConfig, utterances: int, frames: int) -> float:
    """Floating-point operations of the encoder's LSTMs in one step: forward, and twice that backward."""
    encoder, inputs, total, t = config.encoder, config.encoder.convolved, 0.0, float(frames)
    for layer in range(encoder.layers):
        total += 2 * t * 2 * 4 * encoder.size * (inputs + encoder.size)
        inputs = 2 * encoder.size
        t /= encoder.pools[layer] if layer < len(encoder.pools) else 1
    return 3 * utterances * total


def flops(config: AedConfig, utterances: int, frames: int, labels: int) -> float:
    """Floating-point operations of one step's products: forward, and twice that backward."""
    encoder, decoder, d_enc = config.encoder, config.decoder, config.encoder.output
    total = 2 * frames * 9 * (encoder.features * encoder.filters + encoder.features / 2 * encoder.filters**2)
    t = frames / encoder.reduction
    total += 2 * t * d_enc * (config.energy + config.vocab_size + 1)
    per_label = 4 * decoder.size * (decoder.embedding + d_enc + decoder.size) + decoder.size * config.energy
    per_label += t * (config.energy * 2 + d_enc)
    per_label += decoder.readout * (decoder.size + decoder.embedding + d_enc) + decoder.readout / 2 * config.vocab_size
    return lstm_flops(config, utterances, frames) + 3 * utterances * (total + 2 * labels * per_label)


def bare_blstm() -> float:
    """CPU-seconds of torch's own LSTMs of the same sizes alone, forward and backward: a floor to compare with."""
    layers = [(320, 600), (512, 200), (512, 100), (512, 100), (512, 100), (512, 100)]
    pairs = [(torch.nn.LSTM(i, 256, bidirectional=True, batch_first=True), torch.randn(8, t, i)) for i, t in layers]

    def run() -> None:
        for lstm, inputs in pairs:
            inputs.requires_grad_()
            lstm(inputs)[0].sum().backward()

    return cpu_seconds(run, 3)


def decoder_memory() -> float:
    """GB of peak memory of this process after a step of the paper's decoder: 16 × 300 encoder frames, 70 labels."""
    Step(AedConfig(vocab_size=1000, encoder=EncoderConfig(layers=0, filters=0, features=2048)), 16, 300, 70)()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help=QUICK)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.quick:
        print(f"one step of 1 × 60 frames: {cpu_seconds(Step(CONFIG, 1, 60, 3), 1):.2f} CPU-s")
        return
    memory = decoder_memory()
    peak = matmul_peak()
    step = Step(CONFIG, 8, 600, 30)
    seconds = cpu_seconds(step, 5)
    operations = flops(CONFIG, 8, 600, 30)
    print(f"parameters           {sum(p.numel() for p in step.model.parameters()) / 1e6:.2f} M")
    print(f"matmul peak          {peak / 1e9:.1f} GFLOP per CPU-second")
    print(f"products of a step   {operations / 1e9:.1f} GFLOP, {operations / peak:.2f} CPU-s at that peak")
    bare, others = bare_blstm(), operations - lstm_flops(CONFIG, 8, 600)
    least = f"{scaled(bare + others / peak, peak):.2f} at {PEAK / 1e9:.0f} GFLOP"
    print(f"bare torch BLSTMs    {bare:.2f} CPU-s; with all other products at that peak {least} per CPU-second")
    at_peak = f"{scaled(seconds, peak):.2f} CPU-s where the peak is {PEAK / 1e9:.0f} GFLOP per CPU-second"
    print(f"one training step    {seconds:.2f} CPU-s; {at_peak}")
    print(f"decoder memory       {memory:.2f} GB for 16 utterances × 300 encoder frames, 70 labels, energy 1024")
    share = operations / seconds / peak
    result = {"cpu_seconds": seconds, "peak_share": share, "decoder_gb": memory, "gflops": peak / 1e9}
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
