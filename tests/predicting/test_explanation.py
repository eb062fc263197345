"""Reasons of predictions: sums, planted causes, components traced to codes and columns, rankings, refusals."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest

import eventvec as ev
from commands import answer, invoke
from eventvec.blocks.named_terms import terms_of
from eventvec.errors import ConfigError, DataError
from eventvec.learners.contributions import raw_scores
from eventvec.learners.stacking import Stacked
from eventvec.models.head import predictions_of
from eventvec.models.reasons import HeadReasons
from eventvec.predicting.rows_to_predict import PredictionSources, rows_to_predict
from eventvec.quantities import plain_number, times_text
from eventvec.serving.routes import application
from eventvec.serving.serve_options import ServeOptions

N, EVENTS, END = 500, 20, datetime(2024, 6, 1)
SHOPS = np.array(["oil", "tea", "ink", "salt", "rope"])


def planted(cause: str, seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame, np.ndarray]:
    """Return events, labels at one time, and the standardised effect on the log-odds of each card, of one cause."""
    rng = np.random.default_rng(seed)
    taste, level, quiet = rng.beta(1, 3, N), rng.normal(size=N), rng.exponential(20 * 86_400, N)
    shop = np.where(rng.random((N, EVENTS)) < taste[:, None], 1, rng.choice([0, 2, 3, 4], (N, EVENTS)))
    paid = np.exp(rng.normal(0.7 * level[:, None], 0.6, (N, EVENTS)))
    since = np.sort(rng.exponential(40 * 86_400, (N, EVENTS)), 1)[:, ::-1] - 0.0
    times = np.datetime64(END) - (since - since[:, -1:] + quiet[:, None] + 60).astype("timedelta64[s]")
    effect = {"paid": np.log(paid).mean(1), "shop": (shop == 1).mean(1), "at": -np.log(quiet)}[cause]
    effect = (effect - effect.mean()) / effect.std()
    kinds = rng.choice(["a", "b", "c"], N * EVENTS)
    events = pl.DataFrame(
        {
            "card": np.repeat(np.arange(N), EVENTS), "at": times.ravel().astype("datetime64[us]"),
            "shop": SHOPS[shop.ravel()], "paid": paid.ravel(), "kind": kinds,
        }
    )  # fmt: skip
    leaves = rng.random(N) < 1 / (1 + np.exp(-2.5 * effect))
    labels = pl.DataFrame({"card": np.arange(N), "when": [END] * N, "leaves": leaves})
    return (
        events,
        labels.with_columns(spends=5 + effect, type=pl.Series(np.digitize(effect, [-0.5, 0.5])).cast(pl.String)),
        effect,
    )


@cache
def learned(cause: str, label: str) -> ev.Model:
    events, labels, _ = planted(cause)
    kind = ev.EventRegressor if label == "spends" else ev.EventClassifier
    estimator = kind("card", "at", categorical=["shop", "kind"], numeric=["paid"], progress=False)
    return estimator.fit(events, labels.head(350), label, label_time="when").model_


@pytest.fixture
def model() -> ev.Model:
    return learned("shop", "leaves")


def later(labels: pl.DataFrame) -> pl.DataFrame:
    return labels[350:].select("card", "when")


@pytest.mark.parametrize("cause", ["paid", "shop", "at"])
def test_the_planted_column_leads_where_its_effect_is_large(cause: str) -> None:
    events, labels, effect = planted(cause)
    found = ev.explain(learned(cause, "leaves"), events, cutoffs=later(labels))
    sizes = found.frame("columns").with_columns(pl.col("contribution").abs())
    first = sizes.sort("contribution", descending=True).unique("card", keep="first", maintain_order=True).sort("card")
    strong = np.abs(effect[350:]) > np.median(np.abs(effect[350:]))
    assert (first["column"].to_numpy()[strong] == cause).mean() >= 0.95
    total = found.frame("columns").group_by("column").agg(pl.col("contribution").abs().mean())
    assert total.sort("contribution")["column"][-1] == cause


@pytest.mark.parametrize("label", ["leaves", "spends", "type"])
def test_reasons_add_up_to_the_prediction(label: str) -> None:
    trained, (events, labels, _) = learned("shop", label), planted("shop")
    head, at = trained.heads[label], later(labels)
    rows = rows_to_predict(trained, events, PredictionSources(cutoffs=at), {})
    predicted = predictions_of(trained.blocks, trained.heads, rows)[0][label]
    parts = [found for _, found in HeadReasons(head, trained.blocks, trained.schema).of(rows)]
    scores = np.concatenate([each.scores for each in parts])
    expected = raw_scores(head.target.task, predicted[:, 1] if label == "leaves" else predicted)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
    assert np.quantile(np.abs(np.concatenate([each.rest for each in parts])), 0.9) < 1e-5  # nothing is cut off there
    found = ev.explain(trained, events, cutoffs=at, label=label)
    told = found.frame("rows")
    sums = found.frame("columns").group_by("card", maintain_order=True).agg(pl.col("contribution").sum())
    np.testing.assert_allclose(sums["contribution"] + told["baseline"] + told["rest"], told["score"], rtol=0, atol=1e-6)
    of_class = predicted if label == "spends" else predicted[:, 1] if label == "leaves" else predicted.max(1)
    np.testing.assert_allclose(told["prediction"], of_class, rtol=0, atol=1e-5)


def test_components_are_sums_of_their_terms(model: ev.Model) -> None:
    events, labels, _ = planted("shop")
    rows = rows_to_predict(model, events, PredictionSources(cutoffs=later(labels)), {})
    for name in ("codes", "convolutions"):
        found = terms_of(model.blocks[name], model.schema)
        assert found is not None
        terms, given = found.of(rows.data.sequences)
        np.testing.assert_allclose(terms @ found.loadings, model.blocks[name].features(rows)[0], rtol=0, atol=2e-4)
        filled = np.abs(found.loadings).sum(0) > 0
        np.testing.assert_allclose(found.shares.sum(1)[filled], 1, atol=1e-6)
        slopes = np.random.default_rng(0).normal(size=(found.loadings.shape[1], 2))
        np.testing.assert_allclose(
            found.linear(terms, slopes).sum(1), terms @ found.loadings @ slopes, rtol=0, atol=1e-3
        )  # fmt: skip
        if name == "codes":
            tea = given[:, [each for each, _ in found.names].index("shop: tea")]
    last = events.join(later(labels), on="card").filter(pl.col("at") < pl.col("when"), shop="tea")
    counted = later(labels).join(last.group_by("card").len(), on="card", how="left", maintain_order="left")["len"]
    assert tea.tolist() == counted.fill_null(0).to_list()


def test_one_entity_one_class_and_the_first_reasons(model: ev.Model) -> None:
    events, labels, _ = planted("shop")
    found = ev.explain(model, events, cutoffs=later(labels), key=420, top=3)
    assert len(found.frame("rows")) == 1
    assert len(found.rows) == 3
    assert found.frame("rows")["card"].to_list() == [420]
    assert len(found.verdict) <= 5
    assert abs(found.rows[0]["contribution"]) >= abs(found.rows[2]["contribution"])
    assert ev.explain(model, events, cutoffs=later(labels), key=420, of=True, top=3).rows == found.rows
    other = ev.explain(model, events, cutoffs=later(labels), key=420, of="false")
    assert other.row("rows")["score"] == pytest.approx(-found.row("rows")["score"])
    assert other.row("rows")["prediction"] == pytest.approx(1 - found.row("rows")["prediction"])


def test_a_network_is_ranked_and_has_no_contributions(tmp_path: Path) -> None:
    events, labels, _ = planted("shop")
    vector = ev.fit(ev.read(events, key="card", time="at"), method="coles", epochs=1, beside=[])
    estimator = ev.EventClassifier(vector=vector, progress=False)
    trained = estimator.fit(events, labels.head(350), "leaves", label_time="when").model_
    if "learned" not in trained.heads["leaves"].used:
        pytest.skip("the learners do not read the network")
    found = ev.explain(trained, events, cutoffs=later(labels))
    assert {row["column"] for row in found.tables["ranking"]} == {"at", "shop", "paid", "kind"}
    assert all(row["moves"] > 0 for row in found.tables["ranking"])
    with ev.open_state(trained, tmp_path / "state.db") as session:  # which has no events of which one could leave out
        session.push(events.to_dicts())
        of_store = session.explain(420, END)
    assert "ranking" not in of_store.tables
    assert any("in the rest" in note for note in of_store.notes)
    assert found.frame("rows")["rest"].abs().max() > 1e-3
    assert any("ranked" in note for note in found.notes)


def test_without_events_features_and_columns_are_named(model: ev.Model) -> None:
    found = ev.explain(model)
    columns = found.frame("columns")
    assert columns["column"][0] == "shop"
    assert "(several)" not in columns["column"].to_list()
    features = found.frame("features")
    assert features["contribution"].is_sorted(descending=True)
    assert features["feature"][0].startswith("shop=tea")


def test_refusals(model: ev.Model) -> None:
    events, labels, _ = planted("shop")
    at = later(labels)
    for options, error, message in [
        ({"label": "leave"}, ConfigError, "did you mean|leaves"),
        ({"of": "perhaps"}, ConfigError, "has no class 'perhaps'; accepted: false, true"),
        ({"key": 7}, DataError, "none of 150 rows has the key"),
        ({"top": 0}, ConfigError, "top must be at least 1"),
    ]:
        with pytest.raises(error, match=message):
            ev.explain(model, events, cutoffs=at, **options)
    for asked in ({"key": 7}, {"until": END}, {"of": True}):
        with pytest.raises(ConfigError, match=rf"{next(iter(asked))}= \(--.* is for rows of events"):
            ev.explain(model, **asked)
    without = ev.fit(ev.read(events, key="card", time="at"), method="coles", epochs=1, beside=[])
    with pytest.raises(ConfigError, match="has no head"):
        ev.explain(without, events)


def test_the_command_prints_what_the_call_returns(model: ev.Model, tmp_path: Path) -> None:
    events = planted("shop")[0]
    events.write_parquet(tmp_path / "events.parquet")
    model.save(tmp_path / "model")
    arguments = ["explain", tmp_path / "model", tmp_path / "events.parquet", "--key", "420", "--until", "2024-06-01"]
    printed = answer(*arguments)
    expected = ev.explain(model, events, key=420, until=END)
    assert printed["reasons"][0]["feature"] == expected.rows[0]["feature"]
    assert printed["rows"][0]["score"] == pytest.approx(expected.row("rows")["score"])
    result = invoke(*arguments)
    assert result.exit_code == 0
    assert "'leaves' = true is predicted with" in result.stdout
    assert "shop" in invoke("explain", tmp_path / "model", "--full").stdout


def test_a_store_gives_the_reasons_that_whole_histories_give(model: ev.Model, tmp_path: Path) -> None:
    events = planted("shop")[0]
    with ev.open_state(model, tmp_path / "state.db") as session:
        session.push(events.to_dicts())
        for key in (3, 420):
            expected = ev.explain(model, events, until=END, key=key)
            found = session.explain(key, END)
            assert found.frame("reasons")["because"].to_list() == expected.frame("reasons")["because"].to_list()
            np.testing.assert_allclose(
                found.frame("columns").sort("column")["contribution"],
                expected.frame("columns").sort("column")["contribution"], atol=1e-6,
            )  # fmt: skip


def test_a_server_gives_the_reasons_of_each_key(model: ev.Model, tmp_path: Path) -> None:
    async def main() -> list[Any]:
        with ev.open_state(model, tmp_path / "state.db") as session:
            session.push(planted("shop")[0].to_dicts())
            app = application(session, ServeOptions())
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                body = {"keys": [3, 420, "3", "new"], "cutoff": END.isoformat()}
                asked = [
                    {},
                    {"reasons": 2},
                    {"reasons": 2, "label": "leaves"},
                    {"reasons": 51},
                    {"reasons": 1, "label": 1},
                ]
                answers = [await client.post("/predict", json={**body, **further}) for further in asked]
                codes = [each.status_code for each in answers]
                assert codes == [200, 200, 200, 422, 422]
                expected = [session.explain(key, END, top=2).rows for key in body["keys"]]
                return [answers[0].json(), answers[1].json(), answers[2].json(), expected]

    without, found, by_label, expected = asyncio.run(main())
    assert "reasons" not in without
    assert found == by_label
    assert found["predictions"] == without["predictions"]
    assert [len(each) for each in found["reasons"]] == [2, 2, 2, 2]
    assert [[row["because"] for row in each] for each in found["reasons"]] == [
        [row["because"] for row in each] for each in expected
    ]
    np.testing.assert_allclose(
        [[row["contribution"] for row in each] for each in found["reasons"]],
        [[row["contribution"] for row in each] for each in expected], atol=1e-9,
    )  # fmt: skip
    assert found["reasons"][0] == found["reasons"][2]


def test_static_columns_tables_lists_and_earlier_labels_are_told(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 80
    drawn, cards = [f"c{i}" for i in range(n)], np.repeat(np.arange(n), 5)
    at = np.datetime64(END) - rng.integers(1, 90 * 86_400, 5 * n).astype("timedelta64[s]")
    tags = [list(rng.choice(["a", "b"], size)) for size in rng.integers(0, 3, 5 * n)]
    events = pl.DataFrame({"card": [drawn[i] for i in cards], "at": at.astype("datetime64[us]"), "tags": tags})
    plan, income = rng.choice(["x", "y"], n), np.where(rng.random(n) < 0.3, None, rng.normal(3e4, 9e3, n).round())
    static = pl.DataFrame({"card": drawn, "plan": plan})
    tables = {
        "money": pl.DataFrame({"card": drawn, "income": pl.Series(income.tolist(), dtype=pl.Float64)}),
        "place": pl.DataFrame({"card": drawn, "north": rng.random(n) < 0.5, "km": rng.random(n)}),
    }
    effect = np.where(plan == "x", 2.0, 0) + np.array([each or 1e4 for each in income]) / 1e4
    times = [END - timedelta(days=30 * i) for i in range(3) for _ in range(n)]
    y = (effect + rng.normal(0, 0.3, (3, n))).ravel()
    labels = pl.DataFrame({"card": drawn * 3, "when": times, "spends": y})
    estimator = ev.EventRegressor("card", "at", progress=False, reading={"summed": ["tags"]})
    given: dict[str, Any] = {"static": static, "features": tables}
    estimator.fit(events, labels, "spends", label_time="when", earlier_labels="10d", **given).save(tmp_path / "model")
    trained = ev.load(tmp_path / "model")
    given |= {"cutoffs": labels.select("card", "when")[:n], "labels": labels}
    found = ev.explain(trained, events, top=10_000, **given)
    predicted = pl.DataFrame(ev.predict(trained, events, **given))
    np.testing.assert_allclose(found.frame("rows")["prediction"], predicted["prediction"], rtol=0, atol=1e-5)
    reasons = found.frame("reasons")
    sums = reasons.group_by("card", maintain_order=True).agg(pl.col("contribution").sum())
    rows = found.frame("rows").join(sums, on="card")
    np.testing.assert_allclose(rows["contribution"] + rows["baseline"] + rows["rest"], rows["score"], atol=1e-6)
    assert {*reasons["block"]} >= {"handcrafted", "lists", "codes", "convolutions", "static", "earlier_labels", "money"}
    incomes = dict(zip(drawn, income, strict=True))
    for card, because in reasons.filter(feature="income").select("card", "because").rows():
        expected = "missing" if incomes[card] is None else plain_number(incomes[card])
        assert because == f"income is {expected}"
    plans = dict(zip(drawn, plan, strict=True))
    for card, because in reasons.filter(feature="plan=x").select("card", "because").rows():
        assert because == f"plan is {'' if plans[card] == 'x' else 'not '}x"
    bought = events.group_by("card").agg(pl.col("tags").list.explode().drop_nulls())
    counts = {card: of_card.count("a") for card, of_card in bought.rows()}
    for card, because in reasons.filter(feature="tags: a").select("card", "because").rows():
        assert because == f"tags a {times_text(counts[card])}"


def test_columns_of_rows_may_be_called_as_those_of_tables() -> None:
    names = {"card": "block", "at": "score"}
    events, labels, _ = planted("shop")
    named, at = events.head(60 * EVENTS).rename(names), labels[40:60].select(block="card", score="when")
    estimator = ev.EventClassifier("block", "score", categorical=["shop"], numeric=[], progress=False)
    estimator.fit(named, labels.head(60).rename({"card": "block"}), "leaves", label_time="when")
    found = estimator.explain(named, cutoffs=at, cutoff_column="score")
    assert found.frame("rows")["row_block"].to_list() == at["block"].to_list()
    assert found.frame("rows")["row_score"].to_list() == at["score"].to_list()
    assert {"row_block", "row_score", "block"} <= {*found.frame("reasons").columns}


def test_a_head_without_learners_predicts_one_number_and_entities_may_have_no_events(model: ev.Model) -> None:
    events = planted("shop")[0]
    head = model.heads["leaves"]
    none = replace(head, target=replace(head.target, task="numeric", classes=()), stack=Stacked("numeric", {}, {}, 1.5))
    found = ev.explain(replace(model, heads={"leaves": none}), events, until=END, key=3)
    assert (found.row("rows")["prediction"], found.row("rows")["baseline"], found.rows) == (1.5, 1.5, [])
    new = pl.DataFrame({"card": [3, 9999], "when": [END] * 2})
    told = ev.explain(model, events, cutoffs=new, top=3000).frame("reasons").filter(block="convolutions")
    assert told.filter(card=9999)["because"].unique().to_list() == ["there are no events"]
    assert {*told.filter(card=3)["because"]} == {
        f"the pattern of {what} in the last {EVENTS} events" for what in ("paid", "shop", "kind", "times")
    }
    assert {*told.filter(card=3)["value"]} == {EVENTS}
