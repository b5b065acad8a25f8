"""The encoder's fast ways give what the plain ones give."""

import torch
from torch.nn import functional

from fewer.models.encoded import length_mask
from fewer.models.encoder import Encoder, EncoderConfig
from fewer.models.lstm import BlstmLayer


def test_convolutions_equal_those_in_the_usual_order_of_memory() -> None:
    torch.manual_seed(1)
    encoder = Encoder(EncoderConfig(features=10, filters=4, layers=0))
    features, lengths = torch.randn(2, 9, 10), torch.tensor([9, 6])
    mask = length_mask(lengths, 9)[:, None, :, None]
    hidden = features.unsqueeze(1) * mask
    for convolution in encoder.convolutions:
        assert isinstance(convolution, torch.nn.Conv2d)
        made = functional.conv2d(hidden.contiguous(), convolution.weight.contiguous(), convolution.bias, padding=1)
        hidden = functional.max_pool2d(made, (1, 2)) * mask
    torch.testing.assert_close(encoder.convolve(features, lengths), hidden.permute(0, 2, 3, 1).flatten(2))


def test_the_backward_direction_reads_each_sequence_from_its_own_end() -> None:
    torch.manual_seed(1)
    layer, inputs, lengths = BlstmLayer(3, 4), torch.randn(3, 7, 3), torch.tensor([7, 2, 5])
    inputs.requires_grad_()
    together = layer(inputs, lengths)
    (gradient,) = torch.autograd.grad(together.square().sum(), inputs)
    for b, length in enumerate(lengths.tolist()):
        alone = inputs.detach()[b : b + 1, :length].requires_grad_()
        forward, backward = layer.forward_lstm(alone)[0], layer.backward_lstm(alone.flip(1))[0].flip(1)
        expected = torch.cat([forward, backward], dim=-1)
        torch.testing.assert_close(together[b : b + 1, :length], expected)
        (plain,) = torch.autograd.grad(expected.square().sum(), alone)
        torch.testing.assert_close(gradient[b : b + 1, :length], plain)
        assert not gradient[b, length:].any()
        assert not together[b, length:].any()
