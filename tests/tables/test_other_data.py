"""A model that reads other data than it learned from says so once a call; an honest next month is silent."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from commands import invoke
from eventvec.tables import facts
from eventvec.tables.other_data import unlike

pytestmark = pytest.mark.usefixtures("few_kernels")
CARDS = 60
JUNE, JULY = datetime(2024, 6, 1), datetime(2024, 7, 1)
COLUMNS: dict[str, Any] = {"key": "card", "time": "at", "categorical": ["shop"], "numeric": ["paid"]}


def events() -> pl.DataFrame:
    """Return payments from January to July 2024; every second card pays more, mostly in one shop."""
    rng = np.random.default_rng(0)
    card = np.repeat(np.arange(CARDS), rng.integers(20, 60, CARDS))
    n, rich = len(card), card % 2
    minutes = rng.integers(0, 212 * 24 * 60, n) * np.timedelta64(1, "m")
    return pl.DataFrame(
        {
            "card": card,
            "at": np.datetime64("2024-01-01", "us") + minutes,
            "shop": np.where(rng.random(n) < 0.2 + 0.5 * rich, "tea", rng.choice(["oil", "fish", "bread"], n)),
            "paid": rng.lognormal(2 + rich / 2, 1, n),
        }
    )


def before(time: datetime) -> pl.DataFrame:
    """Return the payments before a time."""
    return events().filter(pl.col("at") < time)


def labels() -> pl.DataFrame:
    """Return two labels of each card."""
    return pl.DataFrame({"card": np.arange(CARDS), "rich": ["no", "yes"] * (CARDS // 2), "spend": np.arange(CARDS) / 7})


JULY_ONLY = events().filter(pl.col("at") >= JULY)
CENTS = events().with_columns(pl.col("paid") * 100)
RENAMED = events().with_columns(shop=pl.when(pl.col("at") < JUNE).then("shop").otherwise(pl.lit("the ") + "shop"))
MISTAKES = [
    pytest.param(JULY_ONLY, r"long histories last 2\d\.?\d* days \(1[67]\d days in training\); give all", id="july"),
    pytest.param(CENTS, r"column 'paid': a typical number is 976 \(10\.3 in training\)", id="cents"),
    pytest.param(
        RENAMED.filter(pl.col("at") > datetime(2024, 2, 1)),
        r"column 'shop': [34]\d(\.\d)? % of the values are unknown \(0 % in training\)",
        id="renamed",
    ),
]  # fmt: skip


@cache
def fitted() -> ev.EventClassifier:
    """Return a classifier, which is first fitted inside a test, where convolutions have few kernels."""
    return ev.EventClassifier(**COLUMNS, progress=False).fit(before(JULY), labels(), "rich", label_time="none")


@pytest.fixture
def classifier(few_kernels: None) -> ev.EventClassifier:
    return fitted()


@pytest.fixture(scope="module")
def run() -> ev.Model:
    data = ev.attach(ev.read(before(JULY), **COLUMNS), labels().select("card", "rich"))
    return ev.fit(data, method={"method": {"name": "supervised", "label": "rich"}, "encoder": {"dim": 4}}, epochs=1)


def told(call: Callable[[], object]) -> list[str]:
    """Return the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert {each.category for each in caught} <= {ev.EventvecWarning}
    assert {Path(each.filename) for each in caught} <= {Path(__file__)}  # the line of the caller
    return [str(each.message) for each in caught]


@pytest.mark.parametrize(("mistaken", "sentence"), MISTAKES)
def test_each_call_that_reads_other_data_warns_once(
    classifier: ev.EventClassifier, run: ev.Model, mistaken: pl.DataFrame, sentence: str
) -> None:
    data = ev.read(mistaken, schema=run.schema)
    for call in (
        lambda: classifier.predict_proba(mistaken),
        lambda: classifier.predict(mistaken),
        lambda: ev.predict(run, mistaken),
        lambda: run.embed(mistaken),
        lambda: ev.embed(run.encoder, data),
    ):
        (warning,) = told(call)
        assert warning.startswith("the model reads other data than it learned from: ")
        assert len(re.findall(sentence, warning)) == 1, warning


def test_an_honest_next_month_and_few_entities_are_silent(classifier: ev.EventClassifier, run: ev.Model) -> None:
    two = pl.col("card") < 2
    for table in (
        before(JULY),
        events(),
        events().filter(pl.col("card") < 30),
        CENTS.filter(two),
        JULY_ONLY.filter(two),
    ):
        assert told(lambda table=table: classifier.predict_proba(table)) == []
        assert told(lambda table=table: run.embed(table)) == []


def test_the_regressor_and_a_saved_model_warn_too(classifier: ev.EventClassifier, tmp_path: Path) -> None:
    regressor = ev.EventRegressor(**COLUMNS, progress=False).fit(before(JULY), labels(), "spend", label_time="none")
    assert len(told(lambda: regressor.predict(JULY_ONLY))) == 1
    classifier.save(tmp_path / "model")
    loaded = ev.EventClassifier.load(tmp_path / "model")
    assert told(lambda: loaded.predict(CENTS)) == told(lambda: classifier.predict(CENTS))


def test_the_commands_warn_once_on_standard_error(
    classifier: ev.EventClassifier, run: ev.Model, tmp_path: Path
) -> None:
    classifier.save(tmp_path / "model")
    run.save(tmp_path / "run")
    paths = {"july": JULY_ONLY, "all": events()}
    for name, table in paths.items():
        table.write_parquet(tmp_path / f"{name}.parquet")
    for place, (command, model) in enumerate((("predict", "model"), ("predict", "run"), ("embed", "run"))):
        honest, mistaken = (
            invoke(command, tmp_path / model, tmp_path / f"{name}.parquet", "-o", tmp_path / f"{name}-{place}.parquet")
            for name in ("all", "july")
        )
        assert honest.exit_code == mistaken.exit_code == 0
        assert "warning" not in honest.stderr
        assert mistaken.stderr.count("warning: the model reads other data than it learned from: long histories") == 1


def test_shards_have_the_sentence_as_a_note(run: ev.Model, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    CENTS.write_parquet(tmp_path / "cents.parquet")
    result = ev.embed_shards(tmp_path / "run", tmp_path / "cents.parquet", tmp_path / "z", shards=1, workers=1)
    assert [note for note in result.notes if "a typical number" in note]


def test_facts_are_those_of_a_loop_over_entities() -> None:
    table = RENAMED.with_columns(shop=pl.when(pl.col("paid") < 3).then(None).otherwise("shop"))
    data = ev.read(table, schema=ev.read(before(JUNE), **COLUMNS).schema)
    (paid,) = data.schema.numeric
    spans, scaled, unknown, strangers, present = [], [], 0, 0, 0
    for row in range(len(data)):
        times, codes = (data.sequences[[row]].values(name).numpy() for name in ("time", "shop"))
        spans.append((times[-1] - times[0]) / 1e6)
        scaled += paid.scale(data.sequences[[row]].values("paid")).tolist()
        unknown += int((codes == 1).sum())
        strangers += bool((codes == 1).any() and (codes <= 1).all())
        present += bool((codes > 0).any())
    told_facts = facts(data)
    assert told_facts["spans"] == pytest.approx({"median": np.median(spans), "long": np.quantile(spans, 0.9)})
    shop, numbers = told_facts["columns"]["shop"], told_facts["columns"]["paid"]
    assert (shop["unknown"], shop["unknown_entities"]) == pytest.approx((unknown / len(table), strangers / present))
    assert (numbers["mean"], numbers["std"]) == pytest.approx((np.mean(scaled), np.std(scaled)), rel=1e-4)


def test_fewer_events_over_the_same_time_and_signed_numbers_of_another_scale_are_told() -> None:
    table = events().with_columns(
        paid=pl.col("paid") * pl.when(pl.int_range(pl.len()) % 2 == 0).then(10).otherwise(-10)
    )
    data = ev.read(table, **COLUMNS)
    ends = pl.col("at").is_in(pl.col("at").min().over("card").append(pl.col("at").max().over("card")).implode())
    (fewer,) = unlike(ev.read(table.filter(ends), schema=data.schema), facts(data))
    assert fewer.startswith("histories have 2 events, the median (")
    (wider,) = unlike(ev.read(table.with_columns(pl.col("paid") * 1000), schema=data.schema), facts(data))
    assert wider.startswith("column 'paid': numbers spread 2.")
    (narrower,) = unlike(ev.read(table.with_columns(pl.col("paid") / 1000), schema=data.schema), facts(data))
    assert narrower.startswith("column 'paid': numbers spread 0.0")


def test_entities_that_are_unknown_are_told_where_few_of_the_values_are() -> None:
    data = ev.read(before(JULY), **COLUMNS)
    once = (
        events()
        .filter(pl.col("card") < 40)
        .group_by("card")
        .first()
        .with_columns(pl.col("card") + 100, shop=pl.lit("?"))
    )
    (sentence,) = unlike(ev.read(pl.concat([events(), once]), schema=data.schema), facts(data))
    assert sentence == "column 'shop': 40 % of the entities have unknown values only (0 % in training)"
