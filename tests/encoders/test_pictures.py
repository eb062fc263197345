"""ResNet-18 with a small stem, and the decoder of pictures."""

from __future__ import annotations

import pytest
import torch

from eventvec.encoders.pictures import PictureDecoder, ResNet18
from eventvec.errors import ConfigError, DataError


def test_resnet_has_the_weights_of_the_paper():
    convolutions = 9 * 3 * 64 + 4 * 9 * 64**2  # the stem, and the first stage
    for w in (128, 256, 512):
        convolutions += 9 * w * w // 2 + 3 * 9 * w * w + w * w // 2  # the last one is on the path around
    norms = 2 * (5 * 64 + 5 * (128 + 256 + 512))
    network = ResNet18()
    assert network.dim == 512
    assert sum(weight.numel() for weight in network.parameters()) == convolutions + norms == 11_168_832


def test_the_stem_keeps_the_size_and_later_stages_halve_it():
    network, sizes = ResNet18(size=28, width=2), []
    values = network.stem(torch.rand(2, 3, 28, 28))
    for block in network.blocks:
        sizes.append(values.shape[-1])
        values = block(values)
    assert [*sizes, values.shape[-1]] == [28, 28, 28, 14, 14, 7, 7, 4, 4]


def test_pictures_of_another_shape_are_refused():
    with pytest.raises(DataError, match=r"values have shape \(3, 8, 9\), but this network takes images of shape"):
        ResNet18(size=8, width=2)(torch.rand(2, 3, 8, 9))
    with pytest.raises(ConfigError, match="size, channels and width must be at least 1"):
        ResNet18(width=0)


def test_the_decoder_returns_means_between_0_and_1_and_raw_deviations():
    torch.manual_seed(0)
    decoder = PictureDecoder(width=2).build(context=4, covariate=1, out=2 * 3 * 28 * 28)
    mean, raw = decoder(50 * torch.randn(6, 4), torch.rand(6, 1)).detach().chunk(2, 1)
    assert mean.shape == (6, 3 * 28 * 28)
    assert 0 <= float(mean.min()) < float(mean.max()) <= 1
    assert float(raw.min()) < 0
    with pytest.raises(ConfigError, match="pictures of 28 by 28 pixels, but an observation has the size 1"):
        PictureDecoder().build(context=4, covariate=1, out=2)
    with pytest.raises(ConfigError, match="width must be at least 1, got 0"):
        PictureDecoder(width=0)
