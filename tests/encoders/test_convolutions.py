"""Random convolutions against loops over rows, events, taps and channels."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import make
from eventvec.encoders import Compressed, Convolutions
from eventvec.encoders.convolutions import DILATIONS, KERNELS, VECTORS, WIDTHS
from eventvec.encoders.interface import capabilities
from eventvec.errors import ConfigError
from eventvec.schema import Categorical, Numeric, Schema
from eventvec.sequences import Sequences

LENGTHS = [7, 0, 1, 12, 3]
CODE, AMOUNT = make.schema().categorical[0], make.schema().numeric[0]
MIXED = replace(make.schema(), numeric=(AMOUNT, Numeric("level", log=False, mean=2.0, std=0.1)))
PARAMETERS = make.schema()
"""One categorical and one numeric column, as in tables of (parameter, value)."""
PAIRS = [(width, i, dilation) for width in WIDTHS for i, dilation in enumerate(DILATIONS)]


def histories(lengths: list[int] = LENGTHS, seed: int = 0) -> Sequences:
    """Return rows with a second number, some of which are far, infinite or missing, and events at one time."""
    x, rng = make.sequences(lengths, seed), np.random.default_rng(seed)
    level = torch.from_numpy(rng.normal(2, 0.3, len(x.columns["time"])).astype(np.float32))
    level[::5], level[1::7] = torch.nan, torch.inf
    return replace(x, columns={**x.columns, "level": level, "time": x.columns["time"] // 3 * 3})


def channels(encoder: Convolutions, x: Sequences, row: int, schema: Schema) -> np.ndarray:
    """Return the channels of the latest events of a row, by a loop over these events."""
    one = x[[row]]
    take = slice(max(int(one.lengths) - encoder.window, 0), None)
    time, gap, code = (one.values(name)[take].tolist() for name in ("time", "gap", "code"))
    typical = math.expm1(schema.gap.mean)
    latest: dict[int, float] = {}
    result = []
    for event in range(len(time)):
        channel: list[float] = []
        for column in schema.numeric:
            value = float(column.scale(one.values(column.name)[take][event]))
            channel += [0 if math.isnan(value) else min(max(value, -10), 10), float(math.isnan(value))]
        channel += encoder.get_buffer("vectors_0")[code[event]].tolist()
        scaled = float(schema.gap.scale(torch.tensor(gap[event])))
        channel.append(0 if math.isnan(scaled) else min(max(scaled, -10), 10))
        channel.append(math.log1p((time[-1] - time[event]) / 1e6 / typical) / math.log1p(encoder.window))
        if schema == PARAMETERS:
            amount = float(schema.numeric[0].scale(one.values("amount")[take][event]))
            if code[event] >= 2 and not math.isnan(amount):
                latest[code[event] - 2] = amount
            for value in range(len(schema.categorical[0].values)):
                known = value in latest and encoder.spread[value] > 0
                number = (latest[value] - encoder.level[value]) * encoder.spread[value] if known else 0
                channel.append(float(min(max(number, -10), 10)))
        result.append(channel)
    return np.array(result).reshape(len(time), encoder.channels)


def slow(encoder: Convolutions, x: Sequences, row: int, schema: Schema, kernels: tuple[int, ...]) -> np.ndarray:
    """Return the numbers of some kernels of each pair of width and dilation, `(pairs, 3, kernels)`."""
    events = channels(encoder, x, row, schema)
    results = np.zeros((len(PAIRS), 3, len(kernels)))
    for pair, (width, i, dilation) in enumerate(PAIRS):
        weights = encoder.get_buffer(f"kernels_{width}")[i].unflatten(0, (width, -1)).numpy()
        for place, kernel in enumerate(kernels):
            responses = []
            for event in range(len(events)):
                response = float(encoder.get_buffer(f"biases_{width}")[i, kernel])
                for tap in range(width):
                    at = event + (tap - width // 2) * dilation
                    if 0 <= at < len(events):
                        response += float(weights[tap, :, kernel] @ events[at])
                responses.append(response)
            positive = [response for response in responses if response > 0]
            if responses:
                mean = sum(positive) / len(positive) if positive else 0
                results[pair, :, place] = len(positive) / len(responses), mean, max(responses)
    return results


@pytest.mark.parametrize("schema", [MIXED, PARAMETERS], ids=["mixed", "parameters"])
@pytest.mark.parametrize("window", [256, 5])
def test_responses_are_those_of_loops(schema: Schema, window: int) -> None:
    x = histories()
    encoder = Convolutions(schema, window).fit(histories([20, 30], seed=3))
    z = encoder(x).unflatten(1, (len(PAIRS), 3, KERNELS))
    for row in range(len(x)):
        expected = slow(encoder, x, row, schema, (0, 41))
        np.testing.assert_allclose(z[row][:, :, [0, 41]].numpy(), expected, atol=1e-4)
    assert encoder.dim == z.flatten(1).shape[1] == 2304


def test_the_levels_of_parameters_are_those_of_the_latest_events() -> None:
    x = histories([20, 30], seed=3)
    encoder = Convolutions(PARAMETERS, window=25).fit(x)
    latest = x.slice(torch.arange(2), torch.tensor([0, 5]), torch.tensor([20, 25]))
    code, values = latest.values("code"), AMOUNT.scale(latest.values("amount")).double()
    for place in range(4):
        numbers = values[(code == place + 2) & ~values.isnan()]
        assert encoder.level[place].item() == pytest.approx(float(numbers.mean()), rel=1e-5)
        assert 1 / encoder.spread[place].item() == pytest.approx(float(numbers.std(correction=0)), rel=1e-5)


def test_a_parameter_without_numbers_or_with_equal_ones_is_zero() -> None:
    columns = {"time": torch.arange(4), "gap": torch.ones(4), "code": torch.tensor([2, 2, 2, 0])}
    columns["amount"] = torch.tensor([1e6, 1e6, 1e6, 3.0])
    x = Sequences(columns, torch.tensor([0]), torch.tensor([4]))
    encoder = Convolutions(PARAMETERS).fit(x)
    assert encoder.spread.tolist() == [0, 0, 0, 0]
    assert encoder(x).isfinite().all()


def test_only_the_latest_events_are_read() -> None:
    x = histories([40, 3, 0])
    encoder = Convolutions(PARAMETERS, window=10).fit(x)
    sizes = x.lengths.clamp(max=10)
    latest = x.slice(torch.arange(3), x.lengths - sizes, sizes)
    torch.testing.assert_close(encoder(x), encoder(latest))
    longer = Convolutions(PARAMETERS, window=11).fit(x)
    assert not torch.allclose(longer(x)[0], encoder(x)[0], atol=1e-3)


@pytest.mark.parametrize("schema", [MIXED, PARAMETERS], ids=["mixed", "parameters"])
def test_other_rows_do_not_leak_and_blocks_have_no_influence(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    x = histories()
    encoder = Convolutions(schema).fit(x)
    z = encoder(x)
    assert z[1].tolist() == [0] * encoder.dim  # no event
    outside = torch.ones(len(x.columns["time"]), dtype=torch.bool)
    outside[x.starts[3] : x.starts[3] + 12] = False
    changed = {
        **{name: torch.where(outside, column + 7, column) for name, column in x.columns.items()},
        "code": torch.where(outside, 5 - x.columns["code"], x.columns["code"]),
    }
    again = encoder(replace(x, columns=changed))
    torch.testing.assert_close(again[3], z[3])
    assert not torch.allclose(again[0], z[0], atol=1e-3)
    torch.testing.assert_close(encoder(x[[3, 4, 0]]), z[[3, 4, 0]])
    monkeypatch.setattr("eventvec.sequences.BLOCK", 10)
    torch.testing.assert_close(encoder(x), z)
    torch.testing.assert_close(Convolutions(schema).fit(x).level, encoder.level)
    assert encoder(x[[]]).shape == (0, encoder.dim)


def test_random_numbers_follow_from_the_seed_and_are_stored() -> None:
    encoder, again, other = Convolutions(MIXED), Convolutions(MIXED), Convolutions(MIXED, seed=1)
    for name, value in encoder.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
    assert not torch.equal(other.kernels_7, encoder.kernels_7)
    weights = encoder.kernels_9.unflatten(1, (9, encoder.channels))
    assert weights.mean(1).abs().max() < 1e-6
    assert weights.square().sum((1, 2)).mean().item() == pytest.approx(8 / 9, rel=0.05)  # a degree of freedom is lost
    assert encoder.biases_3.abs().max() < 1
    assert encoder.vectors_0[0].tolist() == [0] * 8
    other.load_state_dict(encoder.state_dict())
    assert torch.equal(other(histories()), encoder(histories()))


@pytest.mark.parametrize("buckets", [0, 2**24])
def test_codes_of_wide_columns_share_vectors(buckets: int) -> None:
    column = Categorical("code", () if buckets else tuple(map(str, range(3000))), buckets=buckets)
    encoder = Convolutions(replace(MIXED, categorical=(column,)))
    assert encoder.vectors_0.shape == (VECTORS, 8)
    x = histories([5])
    codes = torch.full_like(x.columns["code"], 2)
    z = [encoder(replace(x, columns={**x.columns, "code": codes + step})) for step in (0, 1, VECTORS - 2)]
    torch.testing.assert_close(z[0], z[2])
    assert not torch.allclose(z[0], z[1], atol=1e-3)


def test_what_tables_of_parameters_are() -> None:
    both = (CODE, replace(CODE, name="other"))
    tags = (Categorical("tags", ("a",)),)
    assert Convolutions(PARAMETERS).n_latest == 4
    for schema in (MIXED, replace(PARAMETERS, categorical=both), replace(PARAMETERS, bags=tags)):
        assert Convolutions(schema).n_latest == 0
    hashed = Categorical("code", (), buckets=16)
    assert Convolutions(replace(PARAMETERS, categorical=(hashed,))).n_latest == 0
    many = Categorical("code", tuple(map(str, range(99))))
    assert Convolutions(replace(PARAMETERS, categorical=(many,))).n_latest == 64


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no means of codes yet"):
        Convolutions(PARAMETERS)(histories())
    with pytest.raises(ConfigError, match="window must be at least 1, got 0"):
        Convolutions(MIXED, 0)
    with pytest.raises(ConfigError, match="seed"):
        Convolutions(MIXED, seed=-1)
    assert not capabilities(Convolutions(MIXED)).continues


def test_compressed_convolutions_fit_both() -> None:
    x = histories([9, 4, 12, 7, 3, 8])
    encoder = Compressed(Convolutions(PARAMETERS), components=3).fit(x)
    expected = Convolutions(PARAMETERS).fit(x)
    assert torch.equal(encoder.encoder.level, expected.level)
    assert encoder(x).shape == (6, 3)
    assert not capabilities(encoder).continues


@pytest.mark.parametrize("schema", [MIXED, PARAMETERS, Schema("id", "at", "date")], ids=["mixed", "parameters", "none"])
def test_the_share_of_each_column_is_that_of_its_weights(schema: Schema) -> None:
    encoder = Convolutions(schema)
    shares, names = encoder.column_shares()
    assert names == [*(each.name for each in schema.numeric), *(each.name for each in schema.categorical), "at"]
    owners = [each.name for each in schema.numeric for _ in range(2)]
    owners += [each.name for each in schema.categorical for _ in range(8)] + ["at"] * 2
    owners += ["amount"] * (encoder.channels - len(owners))
    assert len(owners) == encoder.channels
    expected = []
    for width, i, _ in PAIRS:
        weights = encoder.get_buffer(f"kernels_{width}")[i].unflatten(0, (width, -1)).numpy()
        of_kernels = np.zeros((KERNELS, len(names)))
        for kernel in range(KERNELS):
            for tap in range(width):
                for channel, owner in enumerate(owners):
                    of_kernels[kernel, names.index(owner)] += float(weights[tap, channel, kernel]) ** 2
        expected += [of_kernels / of_kernels.sum(1, keepdims=True)] * 3
    np.testing.assert_allclose(shares.numpy(), np.concatenate(expected), rtol=1e-5)
    assert shares.shape == (encoder.dim, len(names))
    np.testing.assert_allclose(shares.sum(1).numpy(), 1, rtol=1e-5)


def test_a_response_changes_with_the_columns_that_have_a_share_of_it_alone() -> None:
    """Weights on other columns are set to 0, so changes of these columns leave the responses as they are."""
    x, encoder = histories([20, 30], seed=3), Convolutions(MIXED)
    for width in WIDTHS:
        weights = encoder.get_buffer(f"kernels_{width}").unflatten(1, (width, -1))
        weights[:, :, :4, ::2] = 0  # the channels of both numbers
        weights[:, :, 4:, 1::2] = 0  # those of codes and times
    shares, names = encoder.column_shares()
    changed = {name: x.columns[name] * 2 for name in ("amount", "level")}
    moved = (encoder(replace(x, columns={**x.columns, **changed})) - encoder(x)).abs().amax(0) > 1e-5
    of_numbers = shares[:, [names.index("amount"), names.index("level")]].sum(1) > 0
    of_kernels = [each.unflatten(0, (len(PAIRS), 3, KERNELS)).any(1) for each in (moved, of_numbers)]
    assert torch.equal(*of_kernels)
    assert 0 < int(of_kernels[0].sum()) < of_kernels[0].numel()
