"""Histories and their descriptions: the loss, usable rows, and runs from training to retrieval."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import backbones
import make
from describing import described, problem, score, slow_loss
from eventvec import models
from eventvec.config import build_method, describe
from eventvec.dataset import Dataset, strings
from eventvec.embedding import encode
from eventvec.encoders.language import LanguageEncoder
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.methods.tpp_embedding import TPPEmbedding
from eventvec.models import model_files
from eventvec.schema import Numeric, Schema
from eventvec.sequences import Sequences
from eventvec.training.fitting import fit
from eventvec.views import Counterfeits
from fits import sign


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# The method


def test_loss_ranks_the_histories_for_each_description():
    data = described([4, 2, 6], ["first", "second one", "3"])
    method, x = TPPEmbedding(backbones.encoder(data.schema, unit=1e8), "note", scale=5.0), data.sequences
    expected = slow_loss(method.text(x).detach(), method.encoder(x).detach(), 5.0)
    assert method.loss(x, torch.Generator()).item() == pytest.approx(expected, rel=1e-4)


def test_the_symmetric_objective_also_ranks_the_descriptions_for_each_history():
    data = described([4, 2, 6], ["first", "second one", "3"])
    x, encoder = data.sequences, backbones.encoder(data.schema, unit=1e8)
    symmetric = TPPEmbedding(encoder, "note", scale=5.0, objective="symmetric")
    text, history = symmetric.text(x).detach(), encoder(x).detach()
    expected = (slow_loss(text, history, 5.0) + slow_loss(history, text, 5.0)) / 2
    assert symmetric.loss(x, torch.Generator()).item() == pytest.approx(expected, rel=1e-4)
    assert expected != pytest.approx(slow_loss(text, history, 5.0), rel=1e-3)


def test_mse_is_that_of_the_cosines_of_matched_pairs_and_1():
    data = described([4, 2, 6], ["first", "second one", "3"])
    x, encoder = data.sequences, backbones.encoder(data.schema, unit=1e8)
    mse = TPPEmbedding(encoder, "note", objective="mse")
    text, history = mse.text(x).detach(), encoder(x).detach()
    cosines = [float(F.cosine_similarity(one, other, dim=0)) for one, other in zip(text, history, strict=True)]
    expected = sum((1 - cosine) ** 2 for cosine in cosines) / 3
    assert mse.loss(x, torch.Generator()).item() == pytest.approx(expected, rel=1e-4)


def as_lists(x: Sequences) -> list[tuple[list[int], list[int]]]:
    """Return the codes and times of each row."""
    parts = [x.values(name).split(x.lengths.tolist()) for name in ("code", "time")]
    return [(codes.tolist(), times.tolist()) for codes, times in zip(*parts, strict=True)]


@pytest.mark.parametrize("exchanged", ["types", "gaps"])
@pytest.mark.parametrize("objective", ["ranking", "symmetric"])
def test_counterfeits_that_differ_from_the_history_are_further_negatives(objective: str, exchanged: str):
    data = described([4, 2, 6, 1, 3], ["first", "second one", "3", "four", "v"])
    x, encoder = data.sequences, backbones.encoder(data.schema, unit=1e8)
    sampler = Counterfeits(3, exchanged)
    trained = TPPEmbedding(encoder, "note", scale=5.0, objective=objective, negatives=sampler)
    text, history = trained.text(x).detach(), encoder(x).detach()
    views, source = sampler(x, torch.Generator().manual_seed(7))
    rows, counterfeits = as_lists(x), as_lists(views)
    embedded = [encoder(views[[view]]).detach()[0] for view in range(len(views))]
    loss, equal = 0.0, 0
    for i in range(5):
        others = [embedded[v] for v, s in enumerate(source.tolist()) if s == i and counterfeits[v] != rows[i]]
        equal += 3 - len(others)
        scores = [5 * float(F.cosine_similarity(text[i], z, dim=0)) for z in [*history, *others]]
        loss -= math.log(math.exp(scores[i]) / sum(map(math.exp, scores))) / 5
    if objective == "symmetric":
        loss = (loss + slow_loss(history, text, 5.0)) / 2
    assert 3 < equal < 12  # a history of one event has three; some of the others too
    assert trained.loss(x, torch.Generator().manual_seed(7)).item() == pytest.approx(loss, rel=1e-4)


def test_counterfeits_of_what_the_encoder_does_not_read_do_not_count():
    data = described([4, 3, 6], ["first", "second one", "3"])
    x = data.sequences
    for exchanged, reads in (("gaps", "text"), ("types", "time")):
        encoder = backbones.encoder(data.schema, unit=1e8, reads=reads)
        plain, other = (TPPEmbedding(encoder, "note", negatives=n) for n in (None, Counterfeits(4, exchanged)))
        rng = torch.Generator().manual_seed(0)
        assert not bool(other.counterfeits(x, rng)[1].any())
        assert other.loss(x, rng).item() == pytest.approx(plain.loss(x, rng).item(), rel=1e-6)


def test_equal_float_times_that_differ_by_rounding_do_not_count():
    schema = make.schema(kind="float")
    data = described([6], ["evenly"])
    time = 0.1 * torch.arange(len(data.sequences.columns["time"]), dtype=torch.float64)
    x = replace(data.sequences, columns={**data.sequences.columns, "time": time})
    views, _ = Counterfeits(9, "gaps")(x, torch.Generator().manual_seed(0))
    assert not torch.equal(views.values("time"), x.values("time").repeat(9))
    method = TPPEmbedding(backbones.encoder(schema, unit=0.1), "note", negatives=Counterfeits(9, "gaps"))
    assert not bool(method.counterfeits(x, torch.Generator().manual_seed(0))[1].any())


def test_a_run_with_counterfeits_is_stored_and_loaded(tmp_path: Path):
    encoder = {"name": "language", "backbone": backbones.folder("bert"), "text": "code", "lora": 4, "unit": 1e12}
    negatives = {"name": "counterfeits", "count": 2, "exchanged": "gaps"}
    tables = {"method": {"name": "tpp_embedding", "description": "note", "negatives": negatives}, "encoder": encoder}
    fit(problem(40, 0), method=tables, epochs=1, batch_size=8, out=tmp_path / "run")
    assert models.load(tmp_path / "run").method.negatives == Counterfeits(2, "gaps")


@pytest.mark.parametrize("options", [{"negatives": Counterfeits()}, {"domain": "kind"}], ids=str)
def test_negatives_without_a_ranking_are_refused(options: dict[str, object]):
    with pytest.raises(ConfigError, match="needs the objective ranking or symmetric; mse compares matched pairs"):
        TPPEmbedding(backbones.encoder(make.schema()), "note", objective="mse", **options)


# Domains


def of_domains(codes: list[int]) -> Sequences:
    """Return rows with descriptions and these codes of the static column `kind`; 2 is the first domain."""
    x = described([3 + i % 3 for i in range(len(codes))], [f"row {i}" for i in range(len(codes))]).sequences
    return replace(x, static={**x.static, "kind": torch.tensor(codes, dtype=torch.int32)})


@pytest.mark.parametrize("objective", ["ranking", "symmetric"])
def test_the_loss_over_domains_is_the_mean_of_those_of_batches_of_one_domain(objective: str):
    x, encoder = of_domains([2, 3, 2, 4, 3, 2]), backbones.encoder(make.schema(), unit=1e8)
    plain, trained = (TPPEmbedding(encoder, "note", 5.0, objective, domain=domain) for domain in (None, "kind"))
    rng, loss = torch.Generator(), 0.0
    for code in (2, 3, 4):
        part = x[x.static["kind"] == code]
        loss += plain.loss(part, rng).item() * len(part) / len(x)
    assert trained.loss(x, rng).item() == pytest.approx(loss, rel=1e-4)
    assert plain.loss(x, rng).item() != pytest.approx(loss, rel=1e-2)


def test_counterfeits_count_inside_a_domain():
    x, encoder = of_domains([2, 3, 4]), backbones.encoder(make.schema(), unit=1e8)
    trained = TPPEmbedding(encoder, "note", 5.0, negatives=Counterfeits(2), domain="kind")
    expected, text, history = 0.0, trained.text(x), encoder(x)
    counterfeits, differ = trained.counterfeits(x, torch.Generator().manual_seed(0))
    for i in range(3):  # each domain has one row
        rivals = [history[i].detach(), *counterfeits[i][differ[i]].detach()]
        scores = [5 * float(F.cosine_similarity(text[i].detach(), z, dim=0)) for z in rivals]
        expected -= math.log(math.exp(scores[0]) / sum(map(math.exp, scores))) / 3
    assert trained.loss(x, torch.Generator().manual_seed(0)).item() == pytest.approx(expected, rel=1e-4)


def test_rows_of_a_known_domain_are_usable_and_the_run_stores_its_column(tmp_path: Path):
    x = of_domains([2, 0, 1, 3] * 6)
    data = replace(make.dataset([1] * 24), sequences=x)
    method = TPPEmbedding(backbones.encoder(data.schema, lora=2, unit=1e8), "note", domain="kind")
    assert method.usable(x).tolist() == [True, False, False, True] * 6
    fit(data, method=method, epochs=1, batch_size=4, out=tmp_path / "run", validation=0)
    run = models.load(tmp_path / "run")
    assert run.method.domain == "kind"
    assert [field.name for field in run.schema.static] == ["kind"]


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ("absent", "there is no static column 'absent'"),
        ("level", "domain must be a categorical column, got 'level', which is numeric"),
    ],
)
def test_a_domain_that_is_no_categorical_column_is_refused(domain: str, message: str):
    with pytest.raises(ConfigError, match=message):
        TPPEmbedding(backbones.encoder(make.schema()), "note", domain=domain)


@pytest.mark.parametrize("objective", ["symmetric", "mse"])
def test_a_configuration_names_the_objective(objective: str):
    encoder = {"name": "language", "backbone": backbones.folder(), "text": "code", "lora": 2}
    table = {"name": "tpp_embedding", "description": "note", "objective": objective}
    built = build_method({"method": table, "encoder": encoder}, make.schema())
    assert built.objective == objective
    assert describe(built)["method"] == {**table, "scale": 20.0}


def test_an_unknown_objective_is_refused():
    with pytest.raises(ConfigError, match="objective must be ranking, symmetric or mse, got 'contrastive'"):
        TPPEmbedding(backbones.encoder(make.schema()), "note", objective="contrastive")


def test_rows_with_events_and_a_description_are_usable():
    data = described([4, 0, 2, 1], ["a", "b", "", "d"])
    method = TPPEmbedding(backbones.encoder(data.schema), "note")
    assert method.usable(data.sequences).tolist() == [True, False, False, True]


@pytest.mark.parametrize("column", ["absent", "row"])
def test_data_without_descriptions_are_refused(column):
    data = described([4, 2], ["a", "b"])
    with pytest.raises(ConfigError, match=f"description must name a static column of texts, got '{column}'"):
        TPPEmbedding(backbones.encoder(data.schema), column).usable(data.sequences)


def test_encoding_descriptions_of_data_without_them_is_refused():
    data = described([4, 2], ["a", "b"])
    tower = TPPEmbedding(backbones.encoder(data.schema), "note").text
    with pytest.raises(DataError, match=r"the data have no static column 'note'; give a table with it"):
        encode(tower, make.dataset([4, 2]).sequences)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_not_above_0_is_refused(scale):
    with pytest.raises(ConfigError, match=f"scale must be above 0 and finite, got {scale}"):
        TPPEmbedding(backbones.encoder(make.schema()), "note", scale=scale)


def test_an_encoder_that_reads_no_text_is_refused():
    with pytest.raises(ConfigError, match="text_tower must be given for Recurrent, which reads no descriptions"):
        TPPEmbedding(make.encoder("gru"), "note")


# Runs


def timed(n: int, seed: int) -> Dataset:
    """Return histories of equal codes with three of four intervals, and descriptions that name the intervals."""
    drawn = torch.randint(0, 4, (n, 3), generator=torch.Generator().manual_seed(seed))
    data = described([4] * n, [" ".join("abcd"[place] for place in row) for row in drawn.tolist()])
    x, seconds = data.sequences, torch.tensor([1, 3, 9, 27])[drawn]
    times = torch.cat([torch.zeros(n, 1).long(), seconds.cumsum(1)], 1) * 10**6
    time = torch.zeros_like(x.columns["time"]).index_copy(0, x.flat(), times.flatten())
    columns = {**x.columns, "time": time, "code": torch.full_like(x.columns["code"], 2)}
    return replace(data, sequences=Sequences(columns, x.starts, x.lengths, x.static))


def method(schema: Schema) -> TPPEmbedding:
    return TPPEmbedding(backbones.encoder(schema, "bert", lora=4, unit=1e12), "note")


@pytest.mark.parametrize(
    "objective",
    [pytest.param("ranking", marks=pytest.mark.slow), "symmetric", pytest.param("mse", marks=pytest.mark.slow)],
)
def test_descriptions_retrieve_histories_that_were_held_out(objective: str):
    training, test = problem(512, 0), problem(64, 1)
    trained = TPPEmbedding(backbones.encoder(test.schema, lora=0, unit=1e12), "note", objective=objective)
    before = score(trained, test)
    fit(training, method=trained, epochs=6, batch_size=32, lr=0.003, validation=0)
    after = score(trained, test)
    assert before < 0.12
    low, high = (0.0, 0.25) if objective == "mse" else (0.4, 1.0)  # equal histories share ranks; chance is 0.074
    assert low < after < high


@pytest.mark.parametrize(
    ("draw_histories", "reads", "epochs", "low", "high"),
    [
        pytest.param(timed, "all", 10, 0.4, 1.0, marks=pytest.mark.slow),
        (timed, "time", 7, 0.4, 1.0),
        (timed, "text", 1, 0.03, 0.031),  # all histories are equal and share their ranks: 2 / 65
        pytest.param(problem, "text", 10, 0.4, 1.0, marks=pytest.mark.slow),
        pytest.param(problem, "time", 10, 0.0, 0.15, marks=pytest.mark.slow),  # the times say nothing; chance is 0.074
    ],
)
def test_what_is_left_out_cannot_be_found(
    draw_histories: Callable[[int, int], Dataset], reads: str, epochs: int, low: float, high: float
):
    training, test = draw_histories(512, 0), draw_histories(64, 1)
    unit = 3.0 if draw_histories is timed else 1e12
    trained = TPPEmbedding(backbones.encoder(test.schema, lora=0, unit=unit, reads=reads), "note")
    fit(training, method=trained, epochs=epochs, batch_size=32, lr=0.003, validation=0)
    assert low < score(trained, test) < high


def test_a_run_is_saved_without_the_backbone_and_loads_with_equal_results(tmp_path: Path):
    data = problem(40, 0)
    trained = method(data.schema)
    fit(data, method=trained, epochs=1, batch_size=8, out=tmp_path / "run")
    run = models.load(tmp_path / "run")
    assert torch.equal(encode(run.encoder, data.sequences), encode(trained.encoder, data.sequences))
    assert torch.equal(encode(run.method.text, data.sequences), encode(trained.text, data.sequences))
    tensors, _ = model_files.read_tensors(tmp_path / "run" / "model.safetensors")
    assert {name for name in tensors if "lora" not in name} == {"learned.encoder._extra_state"}
    assert run.config["encoder"]["backbone"] == backbones.folder("bert")
    assert run.config["method"] == {
        "name": "tpp_embedding",
        "description": "note",
        "scale": 20.0,
        "objective": "ranking",
    }
    texts = b"".join(path.read_bytes() for path in (tmp_path / "run").iterdir())
    assert b"v1 v2" not in texts  # no description is saved


def test_a_run_embeds_texts_as_its_tower_does(tmp_path: Path):
    data = problem(40, 0)
    run = fit(data, method=method(data.schema), epochs=1, batch_size=8, out=tmp_path / "run")
    texts = strings(data.sequences.static["note"])
    expected = encode(run.method.text, data.sequences)
    assert torch.equal(torch.from_numpy(models.load(tmp_path / "run").embed_texts(texts)), expected)
    unit = torch.from_numpy(run.embed_texts(texts[:3], normalize=True))
    torch.testing.assert_close(unit, F.normalize(expected[:3], dim=1))
    assert run.embed_texts([]).shape == (0, backbones.WIDTH)


def test_texts_that_cannot_be_embedded_are_refused():
    data = problem(24, 0)
    run = fit(data, method=method(data.schema), epochs=1, batch_size=8)
    for texts in (["a", ""], ["a", " \n"]):
        with pytest.raises(DataError, match=r"text 1 \(from 0\) has no words; a text must have at least one"):
            run.embed_texts(texts)
    for texts in ("a", ["a", None]):
        with pytest.raises(ConfigError, match="texts must be a list of texts, got"):
            run.embed_texts(texts)
    joined = fit(data, method=method(data.schema), epochs=1, batch_size=8, beside=["timing"])
    with pytest.raises(
        ConfigError, match="have parts beside the learned one, timing, and texts compare with the learned part only"
    ):
        joined.embed_texts(["a"])


def test_a_run_that_embeds_no_texts_says_so():
    data = described([4] * 16, ["a"] * 16)
    run = fit(data, method="ocp", epochs=1)
    with pytest.raises(ConfigError, match=r"embeds no texts; one of the method tpp_embedding does"):
        run.embed_texts(["a"])


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = problem(24, 0)
    trained = method(data.schema)
    fit(data, method=trained, epochs=1, batch_size=8, out=tmp_path / "run")
    for name in ("transformers", "peft"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, None)
            with pytest.raises(ConfigError, match=rf"^needs {name}: pip install 'eventvec\[text\]'$"):
                backbones.encoder(data.schema, "bert")
            with pytest.raises(CheckpointError, match=rf"run needs .*: encoder: needs {name}: pip install 'eventvec\["):
                models.load(tmp_path / "run")


def test_an_unknown_option_of_the_method_is_refused():
    encoder = {"name": "language", "backbone": backbones.folder(), "text": "code", "lora": 2}
    for options, message in (
        ({"negative": 3}, "method has no option 'negative'; did you mean 'negatives'"),
        ({"negatives": {"name": "counterfeits", "n": 2}}, "method.negatives has no option 'n'; accepted: count, exch"),
        ({"negatives": {"name": "random_slices"}}, "method.negatives is RandomSlices.*an instance of Counterfeits"),
    ):
        table = {"name": "tpp_embedding", "description": "note", **options}
        with pytest.raises(ConfigError, match=message):
            build_method({"method": table, "encoder": encoder}, make.schema())
    with pytest.raises(ConfigError, match=r"negatives must be views.Counterfeits\(...\), got str"):
        TPPEmbedding(backbones.encoder(make.schema()), "note", negatives="counterfeits")


def test_a_run_with_a_relative_backbone_loads_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, data = Path(backbones.folder("bert")), problem(40, 0)
    monkeypatch.chdir(folder.parent)
    trained = TPPEmbedding(LanguageEncoder(folder.name, data.schema, text="code", lora=4, unit=1e12), "note")
    fit(data, method=trained, epochs=1, batch_size=8, out=tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert torch.equal(encode(models.load("run").encoder, data.sequences), encode(trained.encoder, data.sequences))


def test_a_run_stores_the_unit_that_followed_from_its_data(tmp_path: Path):
    data = problem(40, 0)
    data = replace(data, schema=replace(data.schema, gap=Numeric("gap", edges=(0.0, 60.0, 3600.0))))
    encoder = {"name": "language", "backbone": backbones.folder("bert"), "text": "code", "lora": 4}
    tables = {"method": {"name": "tpp_embedding", "description": "note"}, "encoder": encoder}
    run = fit(data, method=tables, epochs=1, batch_size=8, out=tmp_path / "run")
    loaded = models.load(tmp_path / "run")
    assert loaded.config["encoder"]["unit"] == loaded.encoder.unit == run.encoder.unit == 3600.0
    assert torch.equal(encode(loaded.encoder, data.sequences), encode(run.encoder, data.sequences))


def test_a_run_does_not_load_with_another_backbone(tmp_path: Path):
    data = problem(40, 0)
    fit(data, method=method(data.schema), epochs=1, batch_size=8, out=tmp_path / "run")
    config = (tmp_path / "run" / "config.toml").read_text()
    other = backbones.folder("bert", seed=1)
    (tmp_path / "run" / "config.toml").write_text(config.replace(backbones.folder("bert"), other))
    sign(tmp_path / "run")
    with pytest.raises(CheckpointError, match="is not the one that this run was trained with"):
        models.load(tmp_path / "run")


def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(tmp_path: Path):
    data, settings = problem(40, 0), {"epochs": 2, "batch_size": 8, "checkpoint_every": 3}
    whole, interrupted, resumed = (method(data.schema) for _ in range(3))
    fit(data, method=whole, **settings)

    def stop(record):
        if record["step"] == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(data, method=interrupted, **settings, out=tmp_path / "run", progress=stop)
    result = fit(data, method=resumed, **settings, out=tmp_path / "run", resume=True)
    assert result.steps == 2 * (30 // 8)
    assert torch.equal(encode(resumed.encoder, data.sequences), encode(whole.encoder, data.sequences))
