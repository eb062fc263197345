"""Set encoders: independence of order and padding, the attention of the paper's code, and refused values."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import make
from eventvec.encoders import GRU, EventEncoder
from eventvec.encoders.heads import PlainHead, mlp
from eventvec.encoders.points import Numbers, PointEncoder
from eventvec.encoders.segments import Segmented
from eventvec.encoders.sets import SetEncoder
from eventvec.errors import ConfigError, DataError
from eventvec.methods.cresp_targeted import Prediction
from eventvec.sequences import Sequences
from laws import rng

LENGTHS = [3, 0, 5, 1, 4]


def points(lengths: list[int], shape: tuple[int, ...] = (), seed: int = 0) -> Sequences:
    """Return rows of covariates and observations, with two events of no row before each row."""
    sizes = torch.tensor(lengths)
    total = int(sizes.sum()) + 2 * len(lengths)
    columns = {"x": torch.randn(total, generator=rng(seed)), "y": torch.randn(total, *shape, generator=rng(seed + 1))}
    return Sequences(columns, (sizes + 2).cumsum(0) - sizes, sizes)


def set_encoder(layers: int = 2, pair: str = "mlp", observation: torch.nn.Module | None = None) -> SetEncoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = SetEncoder(PointEncoder(observation), dim=8, layers=layers, heads=2, pair=pair)
        for weight in encoder.parameters():
            torch.nn.init.normal_(weight, std=0.5)
    return encoder.eval()


KINDS = [(0, "mlp"), (2, "mlp"), (0, "gated"), (1, "gated")]


@pytest.mark.parametrize(("layers", "pair"), KINDS)
def test_the_order_of_events_has_no_influence(layers, pair):
    x, encoder = points(LENGTHS), set_encoder(layers, pair)
    order = torch.cat([torch.randperm(n, generator=rng()) + sum(LENGTHS[:i]) for i, n in enumerate(LENGTHS)])
    shuffled = x.take(x.flat()[order], x.lengths)
    assert not torch.equal(shuffled.values("x"), x.values("x"))
    torch.testing.assert_close(encoder(shuffled), encoder(x), rtol=0, atol=1e-5)
    torch.testing.assert_close(encoder.states(shuffled), encoder.states(x)[order], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("layers", "pair"), KINDS)
def test_a_row_does_not_depend_on_other_rows(layers, pair):
    x, encoder = points(LENGTHS), set_encoder(layers, pair)
    z = encoder(x)
    alone = torch.cat([encoder(x[[row]]) for row in range(len(x))])  # without padding, and so without a mask
    torch.testing.assert_close(alone, z, rtol=0, atol=1e-5)
    changed = replace(x, columns={name: values.clone() for name, values in x.columns.items()})
    changed.columns["y"][x[[2]].flat()] += 5
    differs = (encoder(changed) - z).abs().amax(1) > 1e-4
    assert differs.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("layers", [0, 2])
def test_only_without_attention_the_embedding_is_the_mean_over_single_events(layers):
    x, encoder = points([4]), set_encoder(layers)
    one_by_one = x.slice(torch.zeros(4, dtype=torch.long), torch.arange(4), torch.ones(4, dtype=torch.long))
    close = torch.allclose(encoder(one_by_one).mean(0), encoder(x)[0], atol=1e-5)
    assert close == (layers == 0)


def test_an_empty_row_gives_zeros_and_a_finite_gradient():
    x, encoder = points([0, 2, 3]), set_encoder().train()
    z = encoder(x)
    assert z[0].tolist() == [0] * 8
    z.square().sum().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in encoder.parameters())
    for rows in (x[:0], x[:1]):
        z = set_encoder(pair="gated").train()(rows)
        assert z.shape == (len(rows), 8)
        z.sum().backward()


def slow_block(block: torch.nn.Module, x: Tensor, heads: int) -> Tensor:
    """Return one block of attention over the events of one row, one head and one event at a time."""
    size, attended = x.shape[1] // heads, torch.zeros_like(x)
    query, key, value = (part(x).detach() for part in (block.query, block.key, block.value))
    for head in range(heads):
        at = slice(head * size, (head + 1) * size)
        for i in range(len(x)):
            weights = torch.tensor([float(query[i, at] @ key[j, at]) / math.sqrt(size) for j in range(len(x))])
            attended[i, at] = sum(w * value[j, at] for j, w in enumerate(weights.softmax(0)))
    u = block.norms[0](attended + x)
    return block.norms[1](u + block.hidden(u))


def test_attention_equals_a_loop():
    x, encoder = points([3, 5]), set_encoder(layers=2)
    states = encoder.states(x).split([3, 5])
    for row, row_states in enumerate(states):
        values = encoder.each(encoder.events(x[[row]]))
        for block in encoder.blocks:
            values = slow_block(block, values, heads=2)
        torch.testing.assert_close(encoder.last(values), row_states, rtol=1e-4, atol=1e-4)
    names = {name for name, _ in encoder.blocks[0].named_parameters()}
    assert {"query.bias", "key.weight", "value.weight"} <= names
    assert not {"key.bias", "value.bias"} & names


def test_the_gate_multiplies_a_linear_layer():
    x, encoder = points([6, 4]), set_encoder(layers=0, pair="gated")
    pair = torch.stack([x.values("x"), x.values("y")], 1)
    encoder.each.norm.running_mean.fill_(0.3)
    encoder.each.norm.running_var.fill_(4.0)
    weight, bias = encoder.each.norm.weight, encoder.each.norm.bias
    h = (pair - 0.3) / math.sqrt(4 + 1e-5) * weight + bias
    expected = (h @ encoder.each.gate.weight.T + encoder.each.gate.bias).sigmoid() * encoder.each.value(h)
    torch.testing.assert_close(encoder.states(x), expected)


def test_batch_statistics_are_those_of_the_events():
    x, encoder = points(LENGTHS), set_encoder(layers=1, pair="gated").train()
    encoder(x)
    pair = torch.stack([x.values("x"), x.values("y")], 1)
    torch.testing.assert_close(encoder.each.norm.running_mean, 0.1 * pair.mean(0))


def test_the_covariate_comes_first():
    x = points([2, 3], (3,))
    events = PointEncoder(Numbers(3, width=4))
    out = events(x)
    assert (out.shape, events.dim) == ((5, 5), 5)
    assert torch.equal(out[:, 0], x.values("x"))
    torch.testing.assert_close(out[:, 1:], events.observation(x.values("y")))


def test_a_set_encoder_reads_an_event_table_too():
    encoder = SetEncoder(EventEncoder(make.schema()), dim=16)
    assert encoder(make.sequences([4, 0, 2])).shape == (3, 16)


def test_a_prediction_depends_on_context_and_position():
    encoder, head = set_encoder(), PlainHead().build(context=8, covariate=1, out=6)
    x = replace(points([2, 3]), static={"x*": torch.tensor([0.5, -1.0])})
    predictor = Prediction(encoder, head, dim=6)
    expected = head(encoder(x), torch.tensor([[0.5], [-1.0]]))
    torch.testing.assert_close(predictor(x), expected)
    assert predictor.dim == 6


# Values that cannot be encoded


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rows_with_values_that_are_not_finite_are_not_usable_and_not_encoded(shape, bad):
    x = points(LENGTHS, shape)
    encoder = set_encoder(observation=Numbers(*shape))
    x.columns["y"][:2] = bad  # events of no row
    assert encoder.usable(x).all()
    encoder(x)
    x.columns["y"].view(len(x.columns["y"]), -1)[x[[2]].flat()[[1, 3]], -1] = bad
    x.columns["x"][x[[4]].flat()[0]] = bad
    assert encoder.usable(x).tolist() == [True, True, False, True, False]
    with pytest.raises(DataError, match="column 'x' is missing or infinite in 1 of 13 events"):
        encoder(x)
    with pytest.raises(DataError, match="column 'y' is missing or infinite in 2 of 9 events"):
        encoder(x[:4])
    encoder(x[encoder.usable(x)])


def test_numbers_too_large_for_float32_are_not_finite():
    columns = {"x": torch.tensor([1e300, 1.0], dtype=torch.float64), "y": torch.ones(2)}
    assert set_encoder().usable(Sequences(columns, torch.arange(2), torch.ones(2).long())).tolist() == [False, True]


def test_an_encoder_of_a_table_reads_missing_values():
    encoder, x = SetEncoder(EventEncoder(make.schema()), dim=16), make.sequences([4, 0, 2])
    x.columns["amount"].fill_(math.nan)
    assert encoder.usable(x).tolist() == [True, True, True]


def test_any_encoder_over_points_passes_on_which_rows_are_usable():
    x = points(LENGTHS)
    x.columns["y"][x[[2]].flat()[1]] = math.nan
    for encoder in (GRU(PointEncoder(), dim=8), GRU(Segmented(PointEncoder()), dim=8)):
        assert encoder.usable(x).tolist() == [True, True, False, True, True]


def test_rows_without_events_are_usable_without_the_columns():
    x = Sequences({}, torch.zeros(2).long(), torch.zeros(2).long(), {"phase": torch.rand(2)})
    assert set_encoder().usable(x).tolist() == [True, True]


def test_missing_columns_are_named_with_a_remedy():
    x = points(LENGTHS)
    without = replace(x, columns={"time": x.columns["x"], "y": x.columns["y"]})
    for use in (set_encoder(), PointEncoder().usable):
        with pytest.raises(
            DataError,
            match=r"missing: x, found: time, y; read them as numeric or categorical columns, .* processes.draw",
        ):
            use(without)
    with pytest.raises(DataError, match="missing: x, y, found: none;"):
        set_encoder()(replace(x, columns={}))


def test_a_prediction_without_a_place_names_what_makes_one():
    with pytest.raises(
        DataError, match=r"at static\['targets'\] or static\['x\*'\], which the rows lack; make it with views.hold_out"
    ):
        Prediction(set_encoder(), mlp(9, 6), dim=6)(points(LENGTHS))


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (Numbers(), (2,)),
        (Numbers(), (3, 28, 28)),
        (Numbers(2), ()),
        (Numbers(2), (4,)),
        (Numbers(2, width=3), (1, 2)),
    ],
)
def test_values_of_another_shape_are_refused(net, shape):
    with pytest.raises(DataError, match=f"values have shape \\({', '.join(map(str, shape))}"):
        net(torch.zeros(5, *shape))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: SetEncoder(PointEncoder(), dim=12), "dim must be a multiple of heads, got dim 12, heads 8"),
        (lambda: SetEncoder(PointEncoder(), dim=0), "dim must be at least 1, got 0"),
        (lambda: SetEncoder(PointEncoder(), layers=-1), "layers must be at least 0, got -1"),
        (lambda: SetEncoder(PointEncoder(), pair="gate"), "pair 'gate' is not known; did you mean 'gated'"),
        (lambda: Numbers(0), "size must be at least 1, got 0"),
        (lambda: Numbers(1, width=0), "width must be at least 1, got 0"),
    ],
)
def test_options_out_of_range_are_refused(wrong, message):
    with pytest.raises(ConfigError, match=message):
        wrong()


def test_without_attention_any_number_of_heads_is_accepted():
    assert SetEncoder(PointEncoder(), dim=12, layers=0).dim == 12
