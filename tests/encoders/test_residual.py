"""The residual network for series: rows do not see each other, and lengths halve."""

from __future__ import annotations

import pytest
import torch

import make
from eventvec.encoders import EventEncoder, ResidualNetwork
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences


def network(**options: int) -> ResidualNetwork:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ResidualNetwork(EventEncoder(make.schema()), **{"dim": 6, "width": 4, **options})


@pytest.mark.parametrize("kernel", [1, 3, 7])
def test_a_row_alone_has_the_vector_that_it_has_among_others(kernel: int) -> None:
    x, encoder = make.sequences([17, 1, 0, 8, 30, 2]), network(kernel=kernel).eval()
    alone = torch.cat([encoder(x[[i]]) for i in range(len(x))])
    torch.testing.assert_close(encoder(x), alone, rtol=1e-4, atol=1e-5)


def test_batch_statistics_are_those_of_events_alone() -> None:
    x, encoder, again = make.sequences([17, 1, 0, 8, 30, 2]), network().train(), network().train()
    encoder(x)
    rows = again.events(x).split(x.lengths.tolist())
    values = torch.cat([again.inputs.convolution(row.T[None])[0].T for row in rows if len(row)])
    mean = encoder.inputs.normalisation.running_mean
    torch.testing.assert_close(mean, 0.1 * values.mean(0), rtol=1e-4, atol=1e-5)


def test_an_empty_row_gives_the_bias_of_the_output() -> None:
    encoder, x = network().eval(), make.sequences([3, 0])
    torch.testing.assert_close(encoder(x)[1], encoder.outputs.bias)
    torch.testing.assert_close(encoder(x[[1]])[0], encoder.outputs.bias)
    assert encoder(x[:0]).shape == (0, 6)


def test_one_event_can_be_trained() -> None:
    encoder = network().train()
    encoder(make.sequences([1])).sum().backward()
    assert encoder.training
    assert encoder.inputs.normalisation.training


def test_there_are_eight_blocks_that_halve_the_length_three_times() -> None:
    encoder, x = network(), make.sequences([33])
    h, lengths = encoder.inputs(x.pad(encoder.events(x)).mT, x.lengths), x.lengths
    shapes = []
    for block in encoder.blocks:
        h, lengths = block(h, lengths)
        shapes.append((h.shape[1], h.shape[2], int(lengths)))
    stages = [(4, 33, 33), (8, 17, 17), (16, 9, 9), (32, 5, 5)]
    assert shapes == [stage for stage in stages for _ in range(2)]


@pytest.mark.parametrize("options", [{"dim": 0}, {"width": 0}, {"kernel": 2}, {"kernel": -1}])
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(options))} must be (at least 1|odd), got"):
        network(**options)


def test_times_have_no_influence_unless_they_are_encoded() -> None:
    x, plain = make.sequences([9, 4]), ResidualNetwork(EventEncoder(make.schema(), time=()), dim=3, width=2).eval()
    later = Sequences({**x.columns, "gap": x.columns["gap"] * 2}, x.starts, x.lengths)
    assert torch.equal(plain(x), plain(later))
