"""ExpCLR: its features and loss, usable rows, refused options, saving, and training."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl
import pytest
import torch
from torch import Tensor, nn

import eventvec as ev
import make
from commands import answer
from eventvec import losses
from eventvec.config import build_method, describe
from eventvec.dataset import Dataset
from eventvec.embedding import encode
from eventvec.encoders import EventEncoder, TemporalConvolution
from eventvec.errors import ConfigError, DataError
from eventvec.methods.expclr import ExpCLR
from eventvec.methods.expert_triplets import ExpertTriplets
from eventvec.methods.explained import explained_features
from eventvec.models import load
from eventvec.schema import Categorical, Numeric, Schema, Text, Vector
from eventvec.sequences import Sequences, stack
from eventvec.training.fitting import fit
from eventvec.views.draws import integers
from laws import rng

STATIC = (
    Numeric("speed", log=False, mean=10.0, std=4.0),
    Vector("shape", (1.0, 0.0), (2.0, 0.5)),
    Categorical("group", ("a",)),
    Text("words"),
)


def schema() -> Schema:
    return replace(make.schema(), static=STATIC)


def rows(lengths: tuple[int, ...] = (5, 2, 7, 3, 9, 4)) -> Sequences:
    rng = torch.Generator().manual_seed(0)
    x = make.sequences(list(lengths))
    speed = 10 + 4 * torch.randn(len(lengths), generator=rng)
    shape = torch.randn(len(lengths), 2, generator=rng) * torch.tensor([2.0, 0.5]) + torch.tensor([1.0, 0.0])
    return replace(x, static={"speed": speed, "shape": shape})


def test_features_are_standardised_in_the_order_of_their_names():
    x, method = rows(), ExpCLR(make.encoder("gru"), schema(), ["shape", "speed"])
    shape, speed = x.static["shape"], x.static["speed"]
    expected = torch.stack([(shape[:, 0] - 1) / 2, shape[:, 1] / 0.5, (speed - 10) / 4], 1)
    torch.testing.assert_close(method.expert(x), expected)


@pytest.mark.parametrize("delta", ["auto", 0.7])
@pytest.mark.parametrize("normalize", ["row_mean", "none"])
@pytest.mark.parametrize("temperature", [0.3, 1.0, math.inf])
def test_loss_equals_a_double_loop_over_embeddings_and_features(delta, normalize, temperature):
    x, encoder = rows(), make.encoder("gru")
    method = ExpCLR(encoder, schema(), ["speed", "shape"], delta, temperature, normalize)
    f, z = method.expert(x).double(), encoder(x).detach().double()
    n = range(len(x))
    largest = max(math.dist(f[i].tolist(), f[j].tolist()) for i in n for j in n)
    target = [[1 - (1 - math.dist(f[i].tolist(), f[j].tolist()) / largest) ** 2 for j in n] for i in n]
    scale = len(x) ** 2 / sum(map(sum, target)) if delta == "auto" else delta
    errors = []
    for i in n:
        mean = sum(math.dist(z[i].tolist(), z[k].tolist()) for k in n) / len(x) if normalize == "row_mean" else 1
        errors += [(target[i][j] * scale - math.dist(z[i].tolist(), z[j].tolist()) / mean) ** 2 for j in n]
    expected = sum(errors) / len(errors)
    if temperature < math.inf:
        expected = temperature * math.log(sum(math.exp(e / temperature) for e in errors) / len(errors))
    assert method.loss(x, rng()).item() == pytest.approx(expected, rel=1e-4)


def test_rows_without_any_feature_or_an_event_are_not_usable():
    x = rows((5, 0, 7, 3))
    x.static["speed"][2] = float("nan")
    x.static["shape"][3, 1] = float("nan")
    assert ExpCLR(make.encoder("gru"), schema(), ["speed", "shape"]).usable(x).tolist() == [True, False, True, True]
    assert ExpCLR(make.encoder("gru"), schema(), ["speed"]).usable(x).tolist() == [True, False, False, True]
    labelled = ExpCLR(make.encoder("gru"), schema(), ["speed"], label="group")
    x.static["group"] = torch.tensor([0, 2, 2, 1])  # missing, a class, a class, unknown
    assert labelled.usable(x).tolist() == [True, False, True, True]


def test_rows_that_lack_features_are_compared_by_those_that_both_have():
    x, encoder = rows(), make.encoder("gru")
    x.static["speed"][2] = float("nan")
    x.static["shape"][3] = float("nan")
    method = ExpCLR(encoder, schema(), ["speed", "shape"], temperature=math.inf)
    similarity = method.similarity(x)
    assert similarity.isnan().nonzero().tolist() == [[2, 3], [3, 2]]  # these share no feature
    expected = losses.quadratic(encoder(x), similarity, delta="auto", normalize="row_mean")
    assert torch.equal(method.loss(x, rng()), expected)


KINDS = (Categorical("group", ("a", "b", "c")), Categorical("place", ("home", "away")))


def with_categories(missing: bool = False) -> tuple[Schema, Sequences]:
    """Return rows with two categorical features beside the numbers, some missing, unknown, or without any feature."""
    x = rows()
    x.static["group"] = torch.tensor([2, 3, 4, 4, 2, 2])
    x.static["place"] = torch.tensor([2, 2, 3, 3, 2, 3])
    if missing:
        x.static["group"] = torch.tensor([2, 0, 4, 1, 2, 0])
        x.static["place"] = torch.tensor([0, 2, 3, 3, 2, 1])
        x.static["speed"][2:4] = float("nan")
        x.static["shape"][5, 0] = float("nan")
    return replace(schema(), static=(*STATIC[:2], *KINDS)), x


@pytest.mark.parametrize("missing", [False, True])
def test_categories_and_numbers_are_compared_as_by_a_loop_over_features(missing):
    described, x = with_categories(missing)
    method = ExpCLR(make.encoder("gru"), described, ["group", "speed", "place", "shape"], temperature=math.inf)
    speed, shape = (field.scale(x.static[field.name]).tolist() for field in STATIC[:2])
    features = [[speed[i], *shape[i], x.static["group"][i].item(), x.static["place"][i].item()] for i in range(6)]

    def distance(a: list[float], b: list[float]) -> float:
        squares = [(v - w) ** 2 for v, w in zip(a[:3], b[:3], strict=True) if not math.isnan(v + w)]
        squares += [float(v != w) for v, w in zip(a[3:], b[3:], strict=True) if min(v, w) >= 2]
        return math.sqrt(sum(squares) * 5 / len(squares)) if squares else math.nan

    loop = torch.tensor([[distance(a, b) for b in features] for a in features])
    largest = loop.nan_to_num(0).max()
    torch.testing.assert_close(method.similarity(x), (1 - loop / largest).square(), equal_nan=True, atol=1e-5, rtol=0)
    whole = ExpCLR(make.encoder("gru"), described, method.features, largest="data")
    whole.prepare(x)
    torch.testing.assert_close(
        whole.similarity(x[:3]), (1 - loop[:3, :3] / largest).square(), equal_nan=True, atol=1e-5, rtol=0
    )


def test_labels_as_the_only_feature_are_the_similarity_of_labels():
    described, x = with_categories(missing=True)
    method = ExpCLR(make.encoder("gru"), described, ["group"])
    assert method.usable(x).tolist() == [True, False, True, False, True, False]
    code, known = x.static["group"], x.static["group"] >= 2
    expected = (code[:, None] == code).float().masked_fill(~(known[:, None] & known), torch.nan)
    torch.testing.assert_close(method.similarity(x), expected, equal_nan=True, atol=0, rtol=0)
    z, same = method.encoder(x[known]), expected[known][:, known]
    loss = losses.expclr_loss(z, same, delta="auto", temperature=1.0, normalize="row_mean")
    assert torch.equal(method.loss(x[known], rng()), loss)
    alike = x[torch.tensor([0, 4])]  # a batch of one class
    assert method.similarity(alike).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert method.loss(alike, rng()).isfinite()


def test_indicators_of_categories_have_names_and_values_of_unit_distance():
    described, x = with_categories(missing=True)
    method = ExpCLR(make.encoder("gru"), described, ["speed", "group"])
    assert method.feature_names == ("speed", "group = a", "group = b", "group = c")
    half = math.sqrt(0.5)
    assert method.expert(x)[0, 1:].tolist() == pytest.approx([half, 0, 0])
    assert method.expert(x)[2, 1:].tolist() == pytest.approx([0, 0, half])
    assert method.expert(x)[[1, 3, 5], 1:].isnan().all()  # missing, unknown, missing


@pytest.mark.parametrize("command_line", [False, True])
def test_an_encoder_learns_from_labels_as_the_only_feature(tmp_path, command_line):
    data, label = waves(96)
    names = [("slow", "low", "high", "fast")[k] for k in label.tolist()]
    x = data.sequences
    events = pl.DataFrame({
        "wave": torch.arange(96).repeat_interleave(40).numpy(), "t": x.columns["time"].numpy(),
        "amount": x.columns["amount"].numpy(),
    })  # fmt: skip
    labels = pl.DataFrame({"wave": range(96), "tempo": names})
    if command_line:
        events.write_parquet(tmp_path / "events.parquet")
        labels.write_parquet(tmp_path / "labels.parquet")
        answer(
            *("fit", "--events", tmp_path / "events.parquet", "--key", "wave", "--time", "t", "--numeric", "amount"),
            *("--static", tmp_path / "labels.parquet", "--method", "expclr", "--set", 'method.features=["tempo"]'),
            *("--epochs", 1, "--out", tmp_path / "run"),
        )
        run = load(tmp_path / "run")
    else:
        read = ev.read(
            events, key="wave", time="t", numeric=["amount"], static=labels, static_columns={"tempo": "categorical"}
        )
        run = ev.fit(
            read, method={"method": {"name": "expclr", "features": ["tempo"]}, "encoder": {"dim": 8}}, epochs=1
        )
        assert "tempo = slow" in run.notes[-1]
    assert sorted(run.method.feature_names) == [f"tempo = {name}" for name in ("fast", "high", "low", "slow")]


def test_labels_of_some_rows_decide_about_their_pairs():
    x = rows()
    x.static["group"] = torch.tensor([2, 2, 3, 0, 1, 3])
    field = Categorical("group", ("a", "b"))
    described = replace(schema(), static=tuple(field if each.name == "group" else each for each in STATIC))
    plain = ExpCLR(make.encoder("gru"), described, ["speed"])
    method = ExpCLR(make.encoder("gru"), described, ["speed"], label="group")
    known = torch.tensor([True, True, True, False, False, True])
    expected = losses.with_labels(plain.similarity(x), x.static["group"], known)
    assert torch.equal(method.similarity(x), expected)
    assert not torch.equal(expected, plain.similarity(x))
    assert (plain.static_columns, method.static_columns) == (("speed",), ("speed", "group"))
    with pytest.raises(ConfigError, match="label must be a categorical column, got 'speed', which is numeric"):
        ExpCLR(make.encoder("gru"), described, ["speed"], label="speed")


def test_rows_with_labels_join_a_batch_in_training_only():
    x = rows()
    x.static["group"] = torch.tensor([2, 0, 3, 0, 1, 3])
    described = replace(
        schema(), static=tuple(Categorical("group", ("a", "b")) if f.name == "group" else f for f in STATIC)
    )
    torch.manual_seed(0)
    method = ExpCLR(make.encoder("gru"), described, ["speed"], label="group", added=1.5)
    plain = ExpCLR(method.encoder, described, ["speed"], label="group")
    method.prepare(x)
    batch = x[torch.tensor([1, 3, 4, 5])]
    drawn = integers(torch.full((6,), 3), rng(4))
    joined = stack(batch, x[torch.tensor([0, 2, 5])[drawn]])
    assert torch.equal(method.loss(batch, rng(4)), plain.loss(joined, rng()))
    method.eval()
    assert torch.equal(method.loss(batch, rng(4)), plain.loss(batch, rng()))


def test_the_largest_distance_may_be_that_of_the_training_rows():
    x = rows()
    method = ExpCLR(make.encoder("gru"), schema(), ["speed", "shape"], largest="data")
    with pytest.raises(ConfigError, match="needs the rows to train on"):
        method.loss(x, rng())
    method.prepare(x)
    whole = ExpCLR(make.encoder("gru"), schema(), ["speed", "shape"]).similarity(x)
    torch.testing.assert_close(method.similarity(x[:3]), whole[:3, :3])


def test_the_features_are_needed_in_training_only():
    data, _ = waves(24)
    method = small_method(data)
    run = fit(data, method=method, epochs=1, batch_size=8)
    x = data.sequences
    assert run.notes[-1].startswith("R² of each feature from the embedding by a linear model on ")
    assert torch.equal(encode(run.encoder, replace(x, static={})), encode(run.encoder, x))


def test_features_that_the_embedding_holds_are_explained():
    data, _ = waves(200)
    data.sequences.static["speed"][:50] = float("nan")
    method = small_method(data)
    position = torch.randn(200, 8, generator=rng(1))
    method.encoder.forward = lambda x: position[x.starts // 40]  # type: ignore[method-assign]
    data.sequences.static["size"] = position @ torch.linspace(-1, 1, 8) + 0.1 * torch.randn(200, generator=rng(2))
    explained = explained_features(method, data.sequences, rng())
    assert explained.rows == 200
    assert explained.lacking == 50
    assert explained.r2["size"] > 0.95
    assert explained.r2["speed"] < 0.2
    sentence = "on 200 rows; 50 of them lack some features: median 1.00; size 1.00, speed -0."
    assert sentence in str(explained)
    with pytest.raises(DataError, match="R² of a feature needs 20 rows"):
        explained_features(method, data.sequences[:9], rng())


@pytest.mark.parametrize(("size", "rows"), [(16, "held out"), (64, "trained on, as fewer than a batch are held out")])
def test_the_note_says_whether_its_rows_were_trained_on(size, rows):
    data, _ = waves(80)
    run = fit(data, method=small_method(data), epochs=1, batch_size=size, validation=0.3)
    assert f"on {24 if size == 16 else 56} rows: median" in run.notes[-1]
    assert run.notes[-1].endswith(f" (rows {rows})")


def test_columns_that_are_missing_or_not_numbers_are_refused():
    encoder = make.encoder("gru")
    with pytest.raises(ConfigError, match=r"no static column 'sped'; did you mean 'speed'"):
        ExpCLR(encoder, schema(), ["sped"])
    with pytest.raises(
        ConfigError,
        match="each of features must be a numeric or vector or categorical column, got 'words', which is text",
    ):
        ExpCLR(encoder, schema(), ["speed", "words"])
    with pytest.raises(DataError, match="the data have no static column 'speed'"):
        ExpCLR(encoder, schema(), ["speed"]).usable(make.sequences([3]))


@pytest.mark.parametrize(
    "options",
    [
        {"features": []},
        {"delta": 0.0},
        {"delta": -1.0},
        {"delta": math.nan},
        {"delta": math.inf},
        {"temperature": 0.0},
        {"temperature": math.nan},
        {"normalize": "rows"},
        {"largest": "rows"},
        {"added": -1.0},
        {"added": math.inf},
        {"added": 1.0},
    ],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match=f"{next(iter(options))} must .*, got "):
        ExpCLR(make.encoder("gru"), schema(), **{"features": ["speed"], **options})


@pytest.mark.parametrize("options", [{}, {"delta": 1, "temperature": math.inf, "normalize": "none"}])
def test_a_configuration_builds_the_method_and_is_described_again(options):
    config = {
        "method": {"name": "expclr", "features": ["speed", "shape"], **options},
        "encoder": {"name": "tcn", "dim": 5, "layers": 2, "width": 4, "kernel": 3},
    }
    method = build_method(config, schema())
    assert isinstance(method, ExpCLR)
    assert isinstance(method.encoder, TemporalConvolution)
    assert describe(method)["method"] == {
        "name": "expclr",
        "features": ["speed", "shape"],
        "delta": "auto",
        "temperature": 1.0,
        "normalize": "row_mean",
        "largest": "batch",
        "added": 0.0,
        **options,
    }


def waves(n: int) -> tuple[Dataset, Tensor]:
    """Return noisy sines of 40 events with their frequency and amplitude as features, and the frequency as label."""
    draw = torch.Generator().manual_seed(1)
    frequency, amplitude, phase = torch.rand(3, n, generator=draw)
    angle = torch.arange(40) * (0.2 + 0.6 * frequency[:, None]) + 6.3 * phase[:, None]
    values = (0.5 + amplitude[:, None]) * angle.sin() + 0.1 * torch.randn(n, 40, generator=draw)
    columns = {"time": torch.arange(40).repeat(n), "gap": torch.ones(40 * n), "amount": values.flatten()}
    static = {"speed": frequency, "size": amplitude}
    scales = (Numeric("speed", False, 0.5, 0.29), Numeric("size", False, 0.5, 0.29))
    field = Numeric("amount", log=False)
    described = replace(make.schema(kind="integer"), categorical=(), numeric=(field,), static=scales)
    x = Sequences(columns, torch.arange(n) * 40, torch.full((n,), 40), static)
    return Dataset(make.dataset([1] * n).keys, x, described), (frequency * 4).long()


def neighbour_accuracy(z: Tensor, label: Tensor) -> float:
    """Return the share of rows whose nearest other row has the same label."""
    return float((label[torch.cdist(z, z).fill_diagonal_(9e9).argmin(1)] == label).float().mean())


def small_method(data: Dataset) -> ExpCLR:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = TemporalConvolution(EventEncoder(data.schema, time=()), dim=8, layers=3, width=12)
        return ExpCLR(encoder, data.schema, ["speed", "size"])


def test_a_killed_run_resumes_and_loads(tmp_path):
    data, _ = waves(24)
    data.sequences.static["speed"][3] = float("nan")
    settings = {"epochs": 3, "batch_size": 8, "checkpoint_every": 1, "validation": 0.0}
    whole, resumed = small_method(data), small_method(data)
    assert fit(data, method=whole, out=tmp_path / "whole", **settings).usable == 24

    def killed(record: dict[str, float | int | None]) -> None:
        if record["step"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(data, method=small_method(data), out=tmp_path / "cut", progress=killed, **settings)
    fit(data, method=resumed, out=tmp_path / "cut", resume=True, **settings)
    loaded = load(tmp_path / "cut").method
    expected = whole.state_dict()
    for other in (resumed, loaded):
        weights = other.state_dict()
        assert weights.keys() == expected.keys()
        assert all(torch.equal(weights[name], expected[name]) for name in expected)
    assert torch.equal(encode(loaded.encoder, data.sequences), encode(whole.encoder, data.sequences))


def test_distances_of_new_rows_follow_their_features_after_training():
    data, label = waves(160)
    method, train = small_method(data), data[:96]
    encoder = method.encoder
    before = encode(encoder, data.sequences)[96:]
    result = fit(train, method=method, epochs=40, batch_size=32, lr=0.01, validation=0.0)
    after = encode(encoder, data.sequences)[96:]
    history = [record["loss"] for record in result.history]
    assert history[-1] < 0.3 * history[0]
    target = 1 - losses.feature_similarity(method.expert(data.sequences[96:]))

    def agreement(z: Tensor) -> float:
        return float(torch.corrcoef(torch.stack([torch.cdist(z, z).flatten(), target.flatten()]))[0, 1])

    assert agreement(after) > 0.9 > 0.7 > agreement(before)
    assert neighbour_accuracy(after, label[96:]) > neighbour_accuracy(before, label[96:]) + 0.1


def test_gradient_is_invariant_to_shifts_and_scale_of_embeddings():
    class Positions(nn.Module):
        dim = 2

        def __init__(self) -> None:
            super().__init__()
            self.position = nn.Parameter(torch.tensor([[0.0, 1.0], [2.0, 0.5], [1.0, 1.0]]))

        def forward(self, x: Sequences) -> Tensor:
            return self.position[: len(x)]

    encoder = Positions()
    ExpCLR(encoder, schema(), ["speed"]).loss(rows((1, 1, 1)), rng()).backward()
    torch.testing.assert_close(encoder.position.grad.sum(0), torch.zeros(2), atol=1e-6, rtol=0)  # shifts
    radial = (encoder.position.grad * encoder.position).sum()
    torch.testing.assert_close(radial, torch.tensor(0.0), atol=1e-6, rtol=0)  # scale
    assert float(encoder.position.grad.abs().max()) > 1e-3


@pytest.mark.parametrize("method", [ExpCLR, ExpertTriplets])
def test_a_category_with_one_value_in_training_is_refused(method):
    described, x = with_categories()
    x.static["group"] = torch.tensor([2, 0, 2, 1, 2, 2])
    with pytest.raises(DataError, match=r"no feature has two different values in the 6 rows to train on \(group\)"):
        method(make.encoder("gru"), described, ["group"]).prepare(x)
    both = method(make.encoder("gru"), described, ["group", "place"])
    both.prepare(x)
    assert both.loss(x, rng()).isfinite()


@pytest.mark.parametrize("method", [ExpCLR, ExpertTriplets])
def test_features_with_one_value_are_refused_unless_another_differs(method):
    x = rows()
    x.static["speed"][:2], x.static["speed"][2:] = 1.0, math.nan
    with pytest.raises(DataError, match=r"no feature has two different values in the 6 rows to train on \(speed\)"):
        method(make.encoder("gru"), schema(), ["speed"]).prepare(x)
    both = method(make.encoder("gru"), schema(), ["speed", "shape"])
    both.prepare(x)
    assert both.loss(x, rng()).isfinite()


@pytest.mark.parametrize("method", [ExpCLR, ExpertTriplets])
def test_a_category_without_values_is_refused(method):
    described = replace(make.schema(kind="integer"), static=(Categorical("kind", ()),))
    with pytest.raises(ConfigError, match=r"^feature 'kind' has no values in the schema: all are missing$"):
        method(make.encoder("gru"), described, ["kind"])
