"""Three convolutions, ResNet-18 with a small stem, and the decoder of pictures."""

from __future__ import annotations

import pytest
import torch
from experiments.cresp.pictures import Images, PictureDecoder, ResNet18
from experiments.cresp.processes import Snooker, draw, snooker

import eventvec as ev
from eventvec.encoders import PointEncoder, SetEncoder
from eventvec.errors import ConfigError, DataError
from eventvec.methods import cnp
from eventvec.sequences import Sequences
from eventvec.views import hold_out
from laws import rng


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


@pytest.mark.parametrize("size", [1, 7, 28])
def test_images_of_any_size_are_encoded(size):
    net = Images(size, channels=2, width=3, dim=5).eval()
    images = torch.rand(4, 2, size, size, generator=rng())
    out = net(images)
    assert out.shape == (4, 5)
    torch.testing.assert_close(net(images[[2]])[0], out[2], rtol=0, atol=1e-6)


def test_a_set_of_images_is_encoded():
    encoder = SetEncoder(PointEncoder(Images(8, 1, width=2, dim=3)), dim=8)
    columns = {"x": torch.rand(5, generator=rng()), "y": torch.rand(5, 1, 8, 8, generator=rng())}
    assert encoder(Sequences(columns, torch.tensor([0, 2, 2]), torch.tensor([2, 0, 3]))).shape == (3, 8)


def test_pictures_of_another_shape_are_refused():
    with pytest.raises(DataError, match=r"values have shape \(3, 8, 9\), but this network takes images of shape"):
        ResNet18(size=8, width=2)(torch.rand(2, 3, 8, 9))
    for shape in ((), (3, 8, 8), (1, 9, 9)):
        with pytest.raises(DataError, match=f"values have shape \\({', '.join(map(str, shape))}"):
            Images(8, 1)(torch.zeros(5, *shape))
    with pytest.raises(ConfigError, match="size, channels and width must be at least 1"):
        ResNet18(width=0)
    with pytest.raises(ConfigError, match="width 0"):
        Images(width=0)


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


def test_pictures_are_decoded():
    torch.manual_seed(0)
    encoder = SetEncoder(PointEncoder(Images(dim=8, width=2)), dim=8, layers=0)
    method = cnp(encoder, Snooker(count=1, length=3), PictureDecoder(width=2))
    run = ev.fit(snooker(40), method=method, epochs=3, batch_size=8, validation=0.0)
    assert run.history[-1]["loss"] < run.history[0]["loss"]
    context = hold_out(draw(snooker(4), method.views, 1).sequences)
    assert method.predictor(context).shape == (4, 2 * 3 * 28 * 28)
