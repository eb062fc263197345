"""The language encoder over serialised histories: their text against a slow loop, and one embedding for equal texts."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import backbones
import make
from eventvec import models
from eventvec.config import build_encoder, describe
from eventvec.dataset import Dataset, event_lines, text_column
from eventvec.embedding import encode
from eventvec.encoders.language import TIME, LanguageEncoder
from eventvec.errors import ConfigError
from eventvec.methods.retrieval import mean_reciprocal_rank
from eventvec.methods.tpp_embedding import TPPEmbedding
from eventvec.schema import Categorical, Schema
from eventvec.sequences import Sequences
from eventvec.training.fitting import fit
from eventvec.views import Counterfeits

TEXTS = ("a", "bee", "late fee", "cd")
LENGTHS = [4, 0, 7, 1, 5]
POSITIONS = 96
"""The number of positions of the small backbones."""


def schema(kind: str = "timestamp") -> Schema:
    return Schema("id", "at", kind, categorical=(Categorical("code", TEXTS),))


def encoder(kind: str = "llama", **options: object) -> LanguageEncoder:
    return backbones.encoder(schema(), kind, reads="serialised", **{"unit": 1e8, **options})


def noted(x: Sequences, texts: list[str]) -> Sequences:
    return replace(x, static={**x.static, "note": text_column(pa.array(texts))})


def slow_lines(x: Sequences, tick: float) -> list[str]:
    """Return the text of each row, event by event."""
    texts = []
    for begin, length in zip(x.starts.tolist(), x.lengths.tolist(), strict=True):
        times, codes = x.columns["time"].tolist(), x.columns["code"].tolist()
        lines = []
        for event in range(begin, begin + length):
            name = ("missing", "unknown", *TEXTS)[codes[event]]
            lines.append(f"{(times[event] - times[begin]) / tick:.2f},{name}")
        texts.append("\n".join(lines))
    return texts


# The text


@pytest.mark.parametrize(("kind", "factor"), [("timestamp", 1e6), ("integer", 1.0), ("float", 1.0)])
@pytest.mark.parametrize("seconds", [0.7, 3600.0, 1e8])
def test_the_text_has_a_line_of_time_and_type_per_event(kind: str, factor: float, seconds: float):
    rng = np.random.default_rng(0)
    x = make.sequences([9, 0, 30, 1, 14])
    gaps = rng.choice([0, 0, 1, 250_000, 86_400_000_000, 10**14], len(x.columns["time"]))  # microseconds
    time = torch.from_numpy(gaps.cumsum())
    time = time * 1e-6 if kind == "float" else time
    x = replace(x, columns={**x.columns, "time": time})
    unit = seconds if kind != "integer" else seconds * 1e6
    texts = backbones.encoder(schema(kind), reads="serialised", unit=unit).lines(x)
    assert texts == slow_lines(x, unit * factor)
    assert texts[1] == ""
    lines = "\n".join(texts).split("\n")
    assert {line.partition(",")[2] for line in lines} == {"", "missing", "unknown", *TEXTS}
    times = [line.partition(",")[0] for line in texts[2].split("\n")]
    assert len(times) == 30 > len(set(times))  # events at one time
    assert (float(times[-1]) > 1e8) == (seconds == 0.7)


def test_times_are_rounded_and_texts_may_have_any_letters():
    since, types = np.array([0.0, 0.125, 0.375, 1e12, 0.0]), pa.array(["é", "a,b", "", "ж", "z"])
    expected = ["0.00,é\n0.12,a,b", "", "0.38,\n1000000000000.00,ж", "0.00,z"]  # halves go to the even digit
    assert event_lines(since, types, np.array([2, 0, 2, 1])) == expected
    assert event_lines(np.zeros(0), pa.array([], pa.string()), np.array([0, 0])) == ["", ""]
    assert event_lines(since[3:], types[3:], np.array([1, 1])) == ["1000000000000.00,ж", "0.00,z"]


def test_tokens_are_those_of_the_text_with_special_tokens():
    language, x = encoder("bert", unit=1e9), make.sequences([2, 0, 5, 1])
    tokens, texts = language.tokens(x), slow_lines(x, 1e15)
    for row, text in enumerate(texts):
        ids = language.tokenizer.encode(text).ids if text else []
        assert tokens[[row]].values("token").tolist() == ids
    assert tokens[[3]].values("token")[[0, -1]].tolist() == [0, 1]
    assert (tokens.values("since").dtype, bool(tokens.values("since").any())) == (torch.float64, False)
    assert bool(tokens.values("chosen").all())
    assert not bool((tokens.values("token") == TIME).any())


# The embedding


@pytest.mark.parametrize("kind", ["llama", "bert"])
@pytest.mark.parametrize("pooling", ["mean", "max", "last", "first"])
def test_a_history_has_the_embedding_of_its_text(kind: str, pooling: str):
    language = encoder(kind, pooling=pooling)
    x = make.sequences(LENGTHS)
    x = noted(x, slow_lines(x, 1e14))
    z = language(x)
    assert torch.equal(z, language.text_tower("note")(x))
    assert z[1].tolist() == [0.0] * backbones.WIDTH  # no events
    assert bool(z[[0, 2, 3, 4]].any(1).all())
    with torch.no_grad():
        torch.testing.assert_close(language(x), z, rtol=1e-4, atol=1e-5)
    for row in range(len(x)):
        torch.testing.assert_close(language(x[[row]])[0], z[row], rtol=1e-4, atol=1e-5)


def test_the_backbone_reads_the_tokens_of_the_text():
    language, x = encoder("bert"), make.sequences(LENGTHS)
    z = language(x)
    for row, text in enumerate(slow_lines(x, 1e14)):
        if text:
            ids = torch.tensor([language.tokenizer.encode(text).ids])
            torch.testing.assert_close(z[row], language.model(input_ids=ids).last_hidden_state[0].mean(0))


@pytest.mark.parametrize("column", ["time", "code"])
def test_types_and_times_are_read(column: str):
    language, x = encoder(unit=1e8), make.sequences([3, 4])
    values = x.columns[column]
    other = replace(x, columns={**x.columns, column: values.flip(0) if column == "code" else values * 3})
    assert bool((language(other) != language(x)).any(1).all())


def test_only_descriptions_get_the_prompt(tmp_path: Path):
    shutil.copytree(backbones.folder("bert"), tmp_path, dirs_exist_ok=True)
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "ask me "}}))
    plain, prompted = (
        LanguageEncoder(folder, schema(), text="code", unit=1e8, reads="serialised").eval()
        for folder in (backbones.folder("bert"), str(tmp_path))
    )
    x = noted(make.sequences(LENGTHS), [f"row {i}" for i in range(len(LENGTHS))])
    assert (plain.prompt, prompted.prompt) == ("", "ask me ")
    assert torch.equal(prompted(x), plain(x))
    descriptions = [language.text_tower("note")(x) for language in (plain, prompted)]
    assert bool((descriptions[0] != descriptions[1]).any(1).all())


# Truncation


@pytest.mark.parametrize("kind", ["llama", "bert"])
@pytest.mark.parametrize("longest", [6, 20, None])
def test_the_first_tokens_are_read(kind: str, longest: int | None):
    language, limit = encoder(kind, longest=longest), longest or POSITIONS
    x = make.sequences([2, 0, 40, 1])
    tokens = language.tokens(x)
    full = language.tokenizer
    full.no_truncation()
    for row, text in enumerate(slow_lines(x, 1e14)):
        ids = full.encode(text).ids if text else []
        if len(ids) > limit:
            ids = ids[:limit] if kind == "llama" else [*ids[: limit - 1], ids[-1]]  # BERT's last token ends the text
        assert tokens[[row]].values("token").tolist() == ids
    assert int(tokens.lengths.max()) == limit


def test_the_last_events_of_a_history_that_is_too_long_are_not_read():
    x = make.sequences([40])
    last = int(x.starts[0]) + 39
    code = x.columns["code"].clone()
    code[last] = 2 + (code[last] + 1) % 4
    other = replace(x, columns={**x.columns, "code": code})
    for reads, equal in (("serialised", True), ("all", False)):
        language = backbones.encoder(schema(), unit=1e8, reads=reads)
        assert torch.equal(language(other), language(x)) is equal


def test_texts_of_types_may_be_longer_than_what_is_read():
    with pytest.raises(ConfigError, match="have 1 to 8 tokens; accepted: 1 to 5"):
        backbones.encoder(schema(), longest=6)
    empty = Schema("id", "at", "integer", categorical=(Categorical("code", ("", "late fee")),))
    language = backbones.encoder(empty, reads="serialised", longest=6, unit=1e14)
    x = make.sequences([3, 1])
    x = replace(x, columns={**x.columns, "code": x.columns["code"].clamp(max=3)})
    assert language.tokens(x).lengths.tolist() == [6, 6]
    assert language(x).isfinite().all()


# Options and runs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"hidden": "time"},
            "hidden must be all where reads is serialised, got time: it needs both tokens of texts",
        ),
        (
            {"first": "time"},
            "first must be text where reads is serialised, got time: it needs both tokens of texts",
        ),
        ({"temporal": "linear"}, "temporal must be sinusoidal where reads is serialised, got linear"),
        ({"reads": "serialized"}, "reads 'serialized' is not known; did you mean 'serialised'"),
    ],
)
def test_options_without_an_effect_are_refused(options: dict[str, str], message: str):
    with pytest.raises(ConfigError, match=message):
        LanguageEncoder(backbones.folder(), schema(), "code", **{"reads": "serialised", **options})


def test_a_configuration_builds_the_encoder_and_is_described():
    table = {"name": "language", "backbone": backbones.folder(), "text": "code", "unit": 60.0, "lora": 2}
    table["reads"] = "serialised"
    language = build_encoder(table, schema())
    defaults = {"pooling": "mean", "hidden": "all", "first": "text", "temporal": "sinusoidal", "dtype": "float32"}
    assert describe(TPPEmbedding(language, "note"))["encoder"] == {**table, **defaults}


def test_a_counterfeit_of_the_same_text_does_not_count():
    x = noted(make.sequences([4, 3, 6]), ["first", "second one", "3"])
    rng = torch.Generator().manual_seed(0)
    for unit, reads, differs in ((1e13, "serialised", False), (1e13, "all", True), (1e8, "serialised", True)):
        language = backbones.encoder(schema(), unit=unit, reads=reads)
        method = TPPEmbedding(language, "note", negatives=Counterfeits(4, "gaps"))
        assert bool(method.counterfeits(x, rng)[1].any()) is differs  # in units of 1e13 seconds, all times are 0.00


def problem(n: int, seed: int) -> Dataset:
    """Return histories of three of eight codes, and descriptions that name these codes in another order."""
    codes = torch.randint(0, 8, (n, 3), generator=torch.Generator().manual_seed(seed))
    x = noted(make.sequences([3] * n), [" ".join(f"v{code}" for code in row) for row in codes.flip(1).tolist()])
    column = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + codes).flatten().int())
    return Dataset(make.dataset([3] * n).keys, replace(x, columns={**x.columns, "code": column}), make.schema(8))


def test_a_step_changes_the_adapters_and_a_run_loads_with_equal_results(tmp_path: Path):
    data = problem(16, 0)
    table = {"name": "language", "backbone": backbones.folder(), "text": "code", "lora": 4, "unit": 1e8}
    tables = {
        "method": {"name": "tpp_embedding", "description": "note"},
        "encoder": {**table, "reads": "serialised"},
    }
    run = fit(data, method=tables, epochs=1, batch_size=16, validation=0, out=tmp_path / "run")
    assert run.steps == 1
    added = {name: values for name, values in run.encoder.named_parameters() if "lora_B" in name}
    assert len(added) == 8  # four projections in each of two layers
    assert all(bool(values.any()) for values in added.values())  # they are 0 at first
    untrained = LanguageEncoder(backbones.folder(), data.schema, "code", unit=1e8, reads="serialised").eval()
    z = encode(run.encoder, data.sequences)
    assert not torch.equal(z, encode(untrained, data.sequences))
    loaded = models.load(tmp_path / "run")
    assert loaded.config["encoder"]["reads"] == "serialised"
    assert torch.equal(encode(loaded.encoder, data.sequences), z)


def test_serialised_histories_have_a_gradient():
    data = problem(4, 0)
    language = backbones.encoder(data.schema, lora=4, unit=1e8, reads="serialised")
    language(data.sequences).square().sum().backward()
    added = [weight.grad for name, weight in language.named_parameters() if "lora_B" in name]
    assert len(added) == 8
    assert all(bool(gradient.any()) for gradient in added)


@pytest.mark.slow
def test_descriptions_retrieve_serialised_histories_that_were_held_out():
    training, test = problem(512, 0), problem(64, 1)
    language = backbones.encoder(test.schema, lora=0, unit=1e12, reads="serialised")
    trained = TPPEmbedding(language, "note")
    scores = []
    for epochs in (0, 5):
        if epochs:
            fit(training, method=trained, epochs=epochs, batch_size=32, lr=0.003, validation=0)
        z = encode(trained.text, test.sequences), encode(trained.encoder, test.sequences)
        scores.append(mean_reciprocal_rank(*z))
    assert scores[0] < 0.12  # chance is 0.074
    assert scores[1] > 0.4
