"""Encoders of sets: order and padding do not count, attention is that of the paper's code, bad numbers are refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import make
from eventvec.encoders import EventEncoder
from eventvec.encoders.heads import mlp
from eventvec.encoders.points import Images, Numbers, Pairs
from eventvec.encoders.sets import SetEncoder, complete
from eventvec.errors import ConfigError, DataError
from eventvec.methods.cresp_targeted import Prediction
from eventvec.sequences import Sequences

LENGTHS = [3, 0, 5, 1, 4]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def looks(lengths: list[int], shape: tuple[int, ...] = (), seed: int = 0) -> Sequences:
    """Return rows of covariates and observations, with two events of no row before each."""
    sizes = torch.tensor(lengths)
    total = int(sizes.sum()) + 2 * len(lengths)
    columns = {"x": torch.randn(total, generator=rng(seed)), "y": torch.randn(total, *shape, generator=rng(seed + 1))}
    return Sequences(columns, (sizes + 2).cumsum(0) - sizes, sizes)


def encoder(layers: int = 2, pair: str = "mlp", observation: torch.nn.Module | None = None) -> SetEncoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = SetEncoder(Pairs(observation), dim=8, layers=layers, heads=2, pair=pair)
        for weight in made.parameters():
            torch.nn.init.normal_(weight, std=0.5)
    return made.eval()


KINDS = [(0, "mlp"), (2, "mlp"), (0, "gated"), (1, "gated")]


@pytest.mark.parametrize(("layers", "pair"), KINDS)
def test_order_does_not_count(layers, pair):
    x, turned = looks(LENGTHS), encoder(layers, pair)
    order = torch.cat([torch.randperm(n, generator=rng()) + sum(LENGTHS[:i]) for i, n in enumerate(LENGTHS)])
    shuffled = x.take(x.flat()[order], x.lengths)
    assert not torch.equal(shuffled.values("x"), x.values("x"))
    torch.testing.assert_close(turned(shuffled), turned(x), rtol=0, atol=1e-5)
    torch.testing.assert_close(turned.states(shuffled), turned.states(x)[order], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("layers", "pair"), KINDS)
def test_a_row_does_not_depend_on_the_rows_beside_it(layers, pair):
    x, made = looks(LENGTHS), encoder(layers, pair)
    z = made(x)
    alone = torch.cat([made(x[[row]]) for row in range(len(x))])  # full rectangles, without a mask
    torch.testing.assert_close(alone, z, rtol=0, atol=1e-5)
    other = replace(x, columns={name: values.clone() for name, values in x.columns.items()})
    other.columns["y"][x[[2]].flat()] += 5
    changed = (made(other) - z).abs().amax(1) > 1e-4
    assert changed.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("layers", [0, 2])
def test_without_attention_it_is_the_mean_of_events_alone_and_with_it_is_not(layers):
    x, made = looks([4]), encoder(layers)
    one_by_one = x.slice(torch.zeros(4, dtype=torch.long), torch.arange(4), torch.ones(4, dtype=torch.long))
    close = torch.allclose(made(one_by_one).mean(0), made(x)[0], atol=1e-5)
    assert close == (layers == 0)


def test_an_empty_row_gives_zeros_and_a_finite_gradient():
    x, made = looks([0, 2, 3]), encoder().train()
    z = made(x)
    assert z[0].tolist() == [0] * 8
    z.square().sum().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in made.parameters())
    for rows in (x[:0], x[:1]):
        z = encoder(pair="gated").train()(rows)
        assert z.shape == (len(rows), 8)
        z.sum().backward()


def slow_block(block: torch.nn.Module, x: Tensor, heads: int) -> Tensor:
    """Return one block of attention over the events of one row, one head and one event at a time."""
    size, found = x.shape[1] // heads, torch.zeros_like(x)
    query, key, value = (part(x).detach() for part in (block.query, block.key, block.value))
    for head in range(heads):
        at = slice(head * size, (head + 1) * size)
        for i in range(len(x)):
            weights = torch.tensor([float(query[i, at] @ key[j, at]) / math.sqrt(size) for j in range(len(x))])
            found[i, at] = sum(w * value[j, at] for j, w in enumerate(weights.softmax(0)))
    u = block.norms[0](found + x)
    return block.norms[1](u + block.hidden(u))


def test_attention_equals_a_loop():
    x, made = looks([3, 5]), encoder(layers=2)
    states = made.states(x).split([3, 5])
    for row, found in enumerate(states):
        values = made.each(made.events(x[[row]]))
        for block in made.blocks:
            values = slow_block(block, values, heads=2)
        torch.testing.assert_close(made.last(values), found, rtol=1e-4, atol=1e-4)
    names = {name for name, _ in made.blocks[0].named_parameters()}
    assert {"query.bias", "key.weight", "value.weight"} <= names
    assert not {"key.bias", "value.bias"} & names


def test_the_gate_multiplies_a_linear_layer():
    x, made = looks([6, 4]), encoder(layers=0, pair="gated")
    pair = torch.stack([x.values("x"), x.values("y")], 1)
    made.each.norm.running_mean.fill_(0.3)
    made.each.norm.running_var.fill_(4.0)
    weight, bias = made.each.norm.weight, made.each.norm.bias
    h = (pair - 0.3) / math.sqrt(4 + 1e-5) * weight + bias
    expected = (h @ made.each.gate.weight.T + made.each.gate.bias).sigmoid() * made.each.value(h)
    torch.testing.assert_close(made.states(x), expected)


def test_statistics_of_a_batch_are_those_of_its_events():
    x, made = looks(LENGTHS), encoder(layers=1, pair="gated").train()
    made(x)
    pair = torch.stack([x.values("x"), x.values("y")], 1)
    torch.testing.assert_close(made.each.norm.running_mean, 0.1 * pair.mean(0))


def test_pairs_put_the_covariate_first():
    x = looks([2, 3], (3,))
    pairs = Pairs(Numbers(3, width=4))
    out = pairs(x)
    assert (out.shape, pairs.dim) == ((5, 5), 5)
    assert torch.equal(out[:, 0], x.values("x"))
    torch.testing.assert_close(out[:, 1:], pairs.observation(x.values("y")))


@pytest.mark.parametrize("size", [1, 7, 28])
def test_images_of_any_size_become_vectors(size):
    net = Images(size, channels=2, width=3, dim=5).eval()
    images = torch.rand(4, 2, size, size, generator=rng())
    out = net(images)
    assert out.shape == (4, 5)
    torch.testing.assert_close(net(images[[2]])[0], out[2], rtol=0, atol=1e-6)


def test_a_set_of_pictures_is_encoded():
    made = encoder(observation=Images(8, 1, width=2, dim=3))
    assert made(looks([2, 0, 3], (1, 8, 8))).shape == (3, 8)


def test_a_table_of_events_may_be_a_set_too():
    made = SetEncoder(EventEncoder(make.schema()), dim=16)
    assert made(make.sequences([4, 0, 2])).shape == (3, 16)


def test_a_prediction_sees_context_and_place():
    made, head = encoder(), mlp(9, 6)
    x = replace(looks([2, 3]), static={"x*": torch.tensor([0.5, -1.0])})
    predictor = Prediction(made, head, dim=6)
    expected = head(torch.cat([made(x), torch.tensor([[0.5], [-1.0]])], 1))
    torch.testing.assert_close(predictor(x), expected)
    assert predictor.dim == 6


# What cannot be encoded


@pytest.mark.parametrize("shape", [(), (3,), (1, 8, 8)])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rows_with_a_value_that_is_not_finite_are_named_and_not_encoded(shape, bad):
    x = looks(LENGTHS, shape)
    size = int(torch.tensor(shape).prod()) if shape else 1
    made = encoder(observation=Images(8, 1, 2, 3) if len(shape) == 3 else Numbers(size))
    x.columns["y"][:2] = bad  # events of no row
    assert complete(made, x).all()
    made(x)
    x.columns["y"].view(len(x.columns["y"]), -1)[x[[2]].flat()[[1, 3]], -1] = bad
    x.columns["x"][x[[4]].flat()[0]] = bad
    assert complete(made, x).tolist() == [True, True, False, True, False]
    with pytest.raises(DataError, match="column 'x' is missing or infinite in 1 of 13 events"):
        made(x)
    with pytest.raises(DataError, match="column 'y' is missing or infinite in 2 of 9 events"):
        made(x[:4])
    made(x[complete(made, x)])


def test_numbers_too_large_for_float32_are_not_finite():
    columns = {"x": torch.tensor([1e300, 1.0], dtype=torch.float64), "y": torch.ones(2)}
    assert complete(encoder(), Sequences(columns, torch.arange(2), torch.ones(2).long())).tolist() == [False, True]


def test_an_encoder_of_a_table_reads_missing_values():
    made, x = SetEncoder(EventEncoder(make.schema()), dim=16), make.sequences([4, 0, 2])
    x.columns["amount"].fill_(math.nan)
    assert complete(made, x).tolist() == [True, True, True]


def test_absent_columns_are_named_with_a_way_out():
    x = looks(LENGTHS)
    without = replace(x, columns={"time": x.columns["x"], "y": x.columns["y"]})
    for use in (encoder(), Pairs().usable):
        with pytest.raises(
            DataError, match=r"absent: x, found: time, y; name both as numeric columns .* processes.draw"
        ):
            use(without)
    with pytest.raises(DataError, match="absent: x, y, found: none;"):
        encoder()(replace(x, columns={}))


def test_a_prediction_without_a_place_names_what_makes_one():
    with pytest.raises(DataError, match=r"at static\['x\*'\], which the rows lack; make it with views.hold_out"):
        Prediction(encoder(), mlp(9, 6), dim=6)(looks(LENGTHS))


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (Numbers(), (2,)),
        (Numbers(), (3, 28, 28)),
        (Numbers(2), ()),
        (Numbers(2), (4,)),
        (Numbers(2, width=3), (1, 2)),
        (Images(8, 1), ()),
        (Images(8, 1), (3, 8, 8)),
        (Images(8, 1), (1, 9, 9)),
    ],
)
def test_values_of_another_shape_are_refused(net, shape):
    with pytest.raises(DataError, match=f"values of shape \\({', '.join(map(str, shape))}"):
        net(torch.zeros(5, *shape))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: SetEncoder(Pairs(), dim=12), "dim 12, layers 2, heads 8: .* a multiple of heads"),
        (lambda: SetEncoder(Pairs(), dim=0), "dim 0"),
        (lambda: SetEncoder(Pairs(), layers=-1), "layers -1"),
        (lambda: SetEncoder(Pairs(), pair="gate"), "pair 'gate' is not known; accepted: mlp, gated"),
        (lambda: Numbers(0), "size is 0"),
        (lambda: Numbers(1, width=0), "width is 0"),
        (lambda: Images(width=0), "width 0"),
    ],
)
def test_numbers_that_do_not_go_together_are_refused(wrong, message):
    with pytest.raises(ConfigError, match=message):
        wrong()


def test_without_attention_any_number_of_heads_will_do():
    assert SetEncoder(Pairs(), dim=12, layers=0).dim == 12
