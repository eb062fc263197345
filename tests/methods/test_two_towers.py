"""TPP-Embedding with an event encoder for histories and a sentence encoder, frozen or adapted, for descriptions."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import backbones
import make
from describing import described, problem, score, slow_loss
from eventvec import models
from eventvec.config import build_method
from eventvec.dataset import Dataset, strings, text_column
from eventvec.embedding import encode
from eventvec.encoders import GRU, EventEncoder, SentenceEncoder
from eventvec.errors import CheckpointError, ConfigError
from eventvec.methods.tpp_embedding import TPPEmbedding
from eventvec.schema import Schema
from eventvec.sequences import Sequences
from eventvec.training.fitting import fit
from eventvec.views import Counterfeits


def towers(schema: Schema, lora: int | None = None, **options: object) -> TPPEmbedding:
    """Return a GRU beside a small sentence encoder."""
    torch.manual_seed(0)
    histories = GRU(EventEncoder(schema, time=("gap",)), dim=32)
    return TPPEmbedding(histories, "note", text_tower=SentenceEncoder(backbones.folder("bert"), lora=lora), **options)


def tables(**tower: object) -> dict[str, Any]:
    text_tower = {"backbone": backbones.folder("bert"), **tower}
    return {
        "method": {"name": "tpp_embedding", "description": "note", "text_tower": text_tower},
        "encoder": {"name": "gru", "dim": 8},
    }


@pytest.mark.parametrize("lora", [None, 2])
def test_the_loss_ranks_histories_for_a_linear_map_of_each_sentence(lora: int | None):
    data = described([4, 2, 6], ["first", "second one", "3"])
    method, x = towers(data.schema, lora, scale=5.0).eval(), data.sequences
    sentences, projection = method.text_tower, method.projection
    queries = torch.stack([projection(sentences(x.static["note"][[row]]))[0] for row in range(3)]).detach()
    assert torch.allclose(encode(method.text, x), queries, atol=1e-5)
    expected = slow_loss(queries, method.encoder(x).detach(), 5.0)
    assert method.loss(x, torch.Generator()).item() == pytest.approx(expected, rel=1e-4)


def test_only_an_adapted_tower_has_weights_that_are_trained():
    frozen, adapted, whole = (towers(make.schema(), lora) for lora in (None, 2, 0))
    names = [name for name, _ in frozen.named_parameters() if name.startswith("text_tower")]
    assert names == []
    names = [name for name, _ in adapted.named_parameters() if name.startswith("text_tower")]
    assert names
    assert all("lora" in name for name in names)
    names = [name for name, _ in whole.named_parameters() if name.startswith("text_tower")]
    assert names
    assert not [name for name in names if "word_embeddings" in name or "lora" in name]
    for method, trains in ((frozen, False), (adapted, True)):
        assert method.train().text_tower.model.training is trains
        assert not method.eval().text_tower.model.training


def test_a_frozen_tower_encodes_each_description_once_in_a_training(monkeypatch: pytest.MonkeyPatch):
    data = problem(40, 0)
    method = towers(data.schema)
    encoded: list[str] = []
    encode_texts = method.text_tower.encode
    monkeypatch.setattr(method.text_tower, "encode", lambda texts: (encoded.extend(texts), encode_texts(texts))[1])
    fit(data, method=method, epochs=4, batch_size=8, validation=0)
    assert sorted(encoded) == sorted(set(strings(data.sequences.static["note"])))


@pytest.mark.parametrize("lora", [None, pytest.param(0, marks=pytest.mark.slow)])
def test_descriptions_retrieve_histories_that_were_held_out(lora: int | None):
    training, test = problem(512, 0), problem(64, 1)
    method = towers(test.schema, lora)
    before = score(method, test)
    fit(training, method=method, epochs=15, batch_size=32, lr=0.003, validation=0)
    assert before < 0.12  # chance is .074
    assert score(method, test) > 0.3


@pytest.mark.parametrize("lora", [None, 2])
def test_a_run_loads_with_equal_results_and_without_the_backbone(lora: int | None, tmp_path: Path):
    data = problem(40, 0)
    run = fit(
        data, method=tables() if lora is None else tables(lora=lora), epochs=1, batch_size=8, out=tmp_path / "run"
    )
    loaded = models.load(tmp_path / "run")
    assert torch.equal(encode(loaded.encoder, data.sequences), encode(run.encoder, data.sequences))
    texts = strings(data.sequences.static["note"])
    expected = encode(run.method.text, data.sequences)
    assert torch.allclose(torch.from_numpy(loaded.embed_texts(texts)), expected, atol=1e-6)
    names = [
        name for name in load_file(tmp_path / "run" / "model.safetensors") if name.startswith("learned.text_tower")
    ]
    assert names
    assert all("lora" in name or name.endswith("_extra_state") for name in names)
    assert loaded.config["method"]["text_tower"]["pooling"] == "mean"
    stored = b"".join(path.read_bytes() for path in (tmp_path / "run").iterdir())
    assert texts[0].encode() not in stored


def test_a_run_does_not_load_with_another_backbone(tmp_path: Path):
    folder, data = tmp_path / "bert", problem(40, 0)
    shutil.copytree(backbones.folder("bert"), folder)
    fit(data, method=tables(backbone=str(folder)), epochs=1, batch_size=8, out=tmp_path / "run")
    shutil.copytree(backbones.folder("bert", seed=1), folder, dirs_exist_ok=True)
    with pytest.raises(CheckpointError, match="is not the one that this run was trained with"):
        models.load(tmp_path / "run")


def test_a_run_with_a_relative_backbone_loads_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, data = Path(backbones.folder("bert")), problem(40, 0)
    monkeypatch.chdir(folder.parent)
    run = fit(data, method=tables(backbone=folder.name), epochs=1, batch_size=8, out=tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert torch.equal(encode(models.load("run").encoder, data.sequences), encode(run.encoder, data.sequences))


@pytest.mark.parametrize("lora", [None, 2])
def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(lora: int | None, tmp_path: Path):
    data, settings = problem(40, 0), {"epochs": 2, "batch_size": 8, "checkpoint_every": 3}
    longer = text_column(pa.array([text * (1 + row % 4) for row, text in enumerate(strings(texts_of(data)))]))
    data = replace(data, sequences=replace(data.sequences, static={**data.sequences.static, "note": longer}))
    whole, interrupted, resumed = (towers(data.schema, lora) for _ in range(3))
    fit(data, method=whole, **settings)

    def stop(record):
        if record["step"] == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(data, method=interrupted, **settings, out=tmp_path / "run", progress=stop)
    fit(data, method=resumed, **settings, out=tmp_path / "run", resume=True)
    assert torch.equal(encode(resumed.encoder, data.sequences), encode(whole.encoder, data.sequences))
    assert torch.equal(encode(resumed.text, data.sequences), encode(whole.text, data.sequences))


def test_a_training_adds_to_what_a_search_has_encoded():
    data = problem(40, 0)
    method = towers(data.schema)
    encode(method.text, data.sequences[:33])  # in two steps, so that the table of vectors has spare rows
    encode(method.text, data.sequences[:34])
    fit(problem(40, 1), method=method, epochs=1, batch_size=8, validation=0)
    assert len(method.text_tower.places) > 34


def test_the_table_of_vectors_is_no_larger_than_allowed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("eventvec.encoders.sentences.CACHED", 40)
    tower = towers(make.schema()).text_tower
    for stop in (25, 30, 40):
        tower(text_column(pa.array([f"text {i}" for i in range(stop)])))
        assert len(tower.vectors) <= 40


def texts_of(data: Dataset) -> Sequences:
    """Return the descriptions."""
    texts = data.sequences.static["note"]
    assert isinstance(texts, Sequences)
    return texts


def test_counterfeits_of_fast_histories_are_negatives():
    data = described([5, 6], ["first", "second one"])
    x = data.sequences
    steps = torch.tensor([50, 400, 90, 220, 130, 75, 310, 180, 60, 240]) * 1000  # microseconds
    time = torch.zeros_like(x.columns["time"]).index_copy(
        0, x.flat(), 1_700_000_000_000_000 + steps.repeat(2)[:11].cumsum(0)
    )
    x = Sequences({**x.columns, "time": time}, x.starts, x.lengths, x.static)
    method = towers(data.schema, negatives=Counterfeits(9, "gaps"))
    assert bool(method.counterfeits(x, torch.Generator().manual_seed(0))[1].any(1).all())


@pytest.mark.parametrize("exchanged", ["types", "gaps"])
def test_counterfeits_with_other_events_than_the_history_are_negatives(exchanged: str):
    data = described([4, 2, 1, 6], ["first", "second one", "3", "four"])
    x = data.sequences
    method = towers(data.schema, negatives=Counterfeits(5, exchanged)).eval()
    views, source = Counterfeits(5, exchanged)(x, torch.Generator().manual_seed(3))
    embedded, differ = method.counterfeits(x, torch.Generator().manual_seed(3))
    assert torch.allclose(embedded.flatten(0, 1), method.encoder(views), atol=1e-6)
    expected = []
    for view, row in enumerate(source.tolist()):
        pairs = [(views[[view]].values(name), x[[row]].values(name)) for name in x.columns if name != "gap"]
        expected.append(any(not torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in pairs))
    assert differ.flatten().tolist() == expected
    assert 0 < sum(expected) < len(expected)


def test_equal_float_times_that_differ_by_rounding_do_not_count():
    data = described([6], ["evenly"])
    x = data.sequences
    time = 0.1 * torch.arange(len(x.columns["time"]), dtype=torch.float64) - 0.3
    fixed = {name: torch.full_like(values, 2) for name, values in x.columns.items() if isinstance(values, Tensor)}
    x = Sequences({**fixed, "time": time}, x.starts, x.lengths, x.static)
    views, _ = Counterfeits(9, "gaps")(x, torch.Generator().manual_seed(0))
    assert not torch.equal(views.values("time"), x.values("time").repeat(9))
    method = towers(make.schema(kind="float"), negatives=Counterfeits(9, "gaps"))
    assert not bool(method.counterfeits(x, torch.Generator().manual_seed(0))[1].any())


def test_a_domain_is_a_column_of_the_event_encoder_s_schema():
    assert towers(make.schema(), domain="kind").static_columns == ("note", "kind")
    with pytest.raises(ConfigError, match="domain must be a categorical column, got 'level'"):
        towers(make.schema(), domain="level")


@pytest.mark.parametrize(
    ("tower", "message"),
    [
        ({"lora": 99}, "method.text_tower: lora must be from 0 to 16, the size of this backbone's states, got 99"),
        ({"pooling": "sum"}, r"method.text_tower.pooling is 'sum'"),
        ({"loral": 2}, "method.text_tower has no option 'loral'; did you mean 'lora'"),
        ({"backbone": "absent"}, "method.text_tower: backbone 'absent' is not a folder"),
    ],
)
def test_a_wrong_tower_is_refused(tower: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        build_method(tables(**tower), make.schema())


def test_no_tower_or_another_thing_is_refused():
    with pytest.raises(ConfigError, match=r"text_tower must be encoders.SentenceEncoder\(...\), got str"):
        TPPEmbedding(make.encoder("gru"), "note", text_tower="bert")
    config = {**tables(), "method": {"name": "tpp_embedding", "description": "note"}}
    with pytest.raises(ConfigError, match=r"method: text_tower must be given for Recurrent.*text_tower.backbone"):
        build_method(config, make.schema())
