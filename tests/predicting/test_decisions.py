"""`decide`: costs against loops, on a model's own rows and on later labels, rules, classes, verdicts and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
import fits
from eventvec.blocks.earlier_labels import EARLIER
from eventvec.errors import ConfigError, DataError
from eventvec.learners.held_out_scores import HeldOut
from eventvec.models.label_columns import class_names
from eventvec.sequences import Array
from eventvec.statistics.decision_costs import Costs, Judged, divide, paying_threshold

N, TIMES, START = 200, 3, datetime(2024, 1, 1)
COSTS: dict[str, float] = {"action": 1.0, "case": 10.0, "saves": 0.4}

hand_crafted_features_alone = pytest.fixture(fits.without_codes, autouse=True, scope="module")


def events() -> pl.DataFrame:
    """Return events of 120 days of cards, of which some complain more often."""
    rng, card = np.random.default_rng(0), np.repeat(np.arange(N), 30)
    what = np.where(rng.random(len(card)) < np.where(prone(), 0.6, 0.2)[card], "complaint", "order")
    hours = np.sort(rng.integers(0, 120 * 24, len(card)))
    return pl.DataFrame({"card": card, "at": [START + timedelta(hours=int(h)) for h in hours], "what": what})


def prone() -> Array:
    return np.random.default_rng(1).random(N) < 0.3


def labels(times: range = range(TIMES)) -> pl.DataFrame:
    """Return whether each card leaves at the ends of months, and what it buys next."""
    rng, cards, rows = np.random.default_rng(2), np.tile(np.arange(N), 4), np.repeat(np.arange(4), N)
    leaves = rng.random(4 * N) < np.where(prone(), 0.7, 0.08)[cards]
    bought = np.where(leaves, "none", np.where(rng.random(4 * N) < 0.5, "tea", "ink"))
    ends = [START + timedelta(days=30 * int(row + 1)) for row in rows]
    table = pl.DataFrame(
        {"card": cards, "month": ends, "leaves": leaves, "bought": bought, "weight": rng.uniform(0.5, 2, 4 * N)}
    )
    return table.filter(pl.Series(np.isin(rows, times)))


@pytest.fixture(scope="module")
def model(hand_crafted_features_alone: None) -> ev.Model:
    """Return a model of the labels of three months."""
    return ev.fit(ev.read(events(), key="card", time="at"), labels=labels(), label=["leaves", "bought"])


@pytest.fixture(scope="module")
def one(model: ev.Model) -> ev.Model:
    """Return a model of one label."""
    return replace(model, heads={"leaves": model.heads["leaves"]})


def with_rows(model: ev.Model, held_out: HeldOut) -> ev.Model:
    """Return a model with other rows of its own."""
    head = model.heads["leaves"]
    scores = replace(head.info["scores"], held_out=held_out)
    return replace(model, heads={"leaves": replace(head, info={**head.info, "scores": scores})})


def loop(is_case: Any, acts: Any, weights: Any = None) -> float:
    """Return the cost per 1,000 rows."""
    total = count = 0.0
    for place, (case, act) in enumerate(zip(is_case, acts, strict=True)):
        weight = 1.0 if weights is None else weights[place]
        cost = COSTS["action"] if act else 0.0
        if case:
            cost += COSTS["case"] * (1 - COSTS["saves"] if act else 1.0)
        total, count = total + weight * cost, count + weight
    return 1000 * total / count


def test_costs_on_the_rows_of_the_model_are_those_of_a_loop(one: ev.Model) -> None:
    held = one.heads["leaves"].info["scores"].held_out
    y, p, weights, n = held.y, held.predictions, np.random.default_rng(0).uniform(0.5, 2, len(held.y)), len(held.y)
    answer = ev.decide(with_rows(one, replace(held, weights=weights)), **COSTS)
    rows = {row["policy"]: row for row in answer.rows}
    for name, acts in (("nobody", np.zeros(n)), ("everybody", np.ones(n)), ("break-even", p >= 0.25)):
        row = rows[name]
        assert row["cost"].value == pytest.approx(loop(y, acts, weights))
        assert row["model_saves"].value == pytest.approx(row["cost"].value - rows["model"]["cost"].value)
        assert row["acted"] == pytest.approx(np.average(acts, weights=weights))
        assert row["reached"] == pytest.approx(np.average(acts, weights=weights * y))
    for row in answer.tables["curve"]:
        assert row["cost"].value == pytest.approx(loop(y, p >= row["threshold"], weights))
        assert row["saved"].value == pytest.approx(rows["nobody"]["cost"].value - row["cost"].value)
    assert sum(part["rows"] for part in answer.tables["parts"]) == n == answer.facts["rows"]
    assert answer.facts["break_even"] == 0.25
    of_all = Judged(p.astype(float), y, weights, held.groups)
    assert answer.facts["threshold"] == paying_threshold(of_all, Costs(1, 10, 0.4))
    assert answer.facts["acted"] == (p >= answer.facts["threshold"]).sum()
    assert answer.facts["advantage"].place == "ahead"
    saved = min(rows[name]["model_saves"].value for name in ("nobody", "everybody"))
    assert answer.facts["advantage"].value == pytest.approx(saved)


def test_the_cost_of_a_part_is_that_of_the_threshold_of_the_others(one: ev.Model) -> None:
    held, answer = one.heads["leaves"].info["scores"].held_out, ev.decide(one, seed=3, **COSTS)
    thresholds = np.array([part["threshold"] for part in answer.tables["parts"]])
    acts = held.predictions >= thresholds[divide(answer.facts["entities"], 3)[held.groups]]
    assert answer.facts["cost"].value == pytest.approx(loop(held.y, acts))


def test_intervals_of_the_model_are_wider_where_its_trainings_overlap(one: ev.Model) -> None:
    head = one.heads["leaves"]
    info = {**head.info, "scores": replace(head.info["scores"], latest=None)}
    apart, crossed = (
        ev.decide(one, **COSTS),
        ev.decide(replace(one, heads={"leaves": replace(head, info=info)}), **COSTS),
    )
    for policy, factor in (("model", 1.5), ("break-even", 1.5), ("nobody", 1.0), ("everybody", 1.0)):
        half = apart.row(policy=policy)["cost"].half_width
        assert crossed.row(policy=policy)["cost"].half_width == pytest.approx(factor * half)
    assert crossed.facts["advantage"].half_width == pytest.approx(1.5 * apart.facts["advantage"].half_width)
    assert any("each predicted from other entities. Later times may differ" in note for note in crossed.notes)


def test_a_model_in_a_folder_gives_the_same_answer(one: ev.Model, tmp_path: Path) -> None:
    one.save(tmp_path / "model")
    assert ev.decide(ev.load(tmp_path / "model"), **COSTS).to_dict() == ev.decide(one, **COSTS).to_dict()


def test_later_labels_are_predicted_as_of_their_times(model: ev.Model, one: ev.Model) -> None:
    later = labels(range(3, 4))
    answer = ev.decide(one, events(), later, **COSTS)
    predicted = ev.predict(one, events(), cutoffs=later, cutoff_column="month")
    joined = pl.DataFrame(predicted).join(later, on=["card", "month"])
    p, is_case = joined["p_true"].to_numpy(), joined["leaves"].to_numpy()
    assert answer.facts["rows"] == N
    assert answer.facts["cases"] == is_case.sum()
    assert answer.row(policy="break-even")["cost"].value == pytest.approx(loop(is_case, p >= 0.25))
    assert answer.row(policy="nobody")["cost"].value == pytest.approx(loop(is_case, np.zeros(N)))
    several = ev.decide(model, events(), later, label="leaves", **COSTS)
    assert several.rows == answer.rows
    hidden = events().with_columns(what=pl.when(pl.col("at") < START + timedelta(days=120)).then("what"))
    assert ev.decide(one, hidden, later, **COSTS).rows == answer.rows
    earlier = events().with_columns(what=pl.lit("complaint"))
    assert ev.decide(one, earlier, later, **COSTS).rows != answer.rows


def test_earlier_labels_are_those_that_were_known_at_the_time_of_each_label() -> None:
    every, later = labels(range(4)), labels(range(3, 4))
    data = ev.read(events(), key="card", time="at")
    model = ev.fit(data, labels=labels(), label="leaves", earlier_labels="20d")
    answer = ev.decide(model, events(), later, known=every, **COSTS)
    predicted = ev.predict(model, events(), cutoffs=later, cutoff_column="month", labels=labels())
    joined = pl.DataFrame(predicted).join(later, on=["card", "month"])
    expected = loop(joined["leaves"], joined["p_true"].to_numpy() >= 0.25)
    assert answer.row(policy="break-even")["cost"].value == pytest.approx(expected)
    alone = ev.decide(model, events(), later, **COSTS)
    assert alone.rows != answer.rows
    renamed = later.rename({"card": "number", "month": "day"})
    assert ev.decide(model, events(), renamed, key="number", **COSTS).rows == alone.rows
    assert any("known= (--known) names a table of all" in note for note in alone.notes)
    assert not any("known= (--known)" in note for note in answer.notes)


def test_earlier_labels_that_follow_from_the_events_are_of_no_table() -> None:
    data = ev.read(events(), key="card", time="at")
    panel = pl.DataFrame(ev.future_labels(data, every="20d", horizon="3d", name="quiet"))
    is_last = pl.col("at") == panel["at"].max()
    model = ev.fit(data, labels=panel.filter(~is_last), label="quiet")
    assert EARLIER in model.heads["quiet"].blocks
    answer = ev.decide(model, data, panel.filter(is_last), **COSTS)
    assert not any("known= (--known)" in note for note in answer.notes)


def test_options_that_would_change_nothing_or_hide_events_are_refused(one: ev.Model) -> None:
    data, later = ev.read(events(), key="card", time="at"), labels(range(3, 4))
    with pytest.raises(ConfigError, match="time_format applies to a table, but the events are a data set already"):
        ev.decide(one, data, later, time_format="%Y", **COSTS)
    with pytest.raises(ConfigError, match="until is for labels without times, and these have theirs in 'month'"):
        ev.decide(one, events(), later, until="2024-02-01", **COSTS)
    assert ev.decide(one, data, later, **COSTS).rows == ev.decide(one, events(), later, **COSTS).rows


def test_weights_and_groups_of_labels(one: ev.Model) -> None:
    later = labels(range(3, 4)).with_columns(house=pl.col("card") // 4)
    plain, weighed = (ev.decide(one, events(), later, **COSTS, **options) for options in ({}, {"weight": "weight"}))
    expected = loop(later["leaves"], np.ones(N), later["weight"])
    assert weighed.row(policy="everybody")["cost"].value == pytest.approx(expected)
    houses = ev.decide(one, events(), later, group="house", **COSTS)
    assert (plain.facts["entities"], houses.facts["entities"]) == (N, N // 4)
    assert houses.row(policy="nobody")["cost"].value == plain.row(policy="nobody")["cost"].value
    assert houses.row(policy="nobody")["cost"].low != plain.row(policy="nobody")["cost"].low


@pytest.mark.parametrize("by_time", [False, True])
def test_a_rule_is_judged_beside_the_model(one: ev.Model, by_time: bool) -> None:
    later = labels(range(2, 4)) if by_time else labels(range(3, 4))
    acts = np.random.default_rng(3).random(len(later)) < 0.3
    rule = later.select("card", *(["month"] if by_time else []), acts=pl.Series(acts)).sample(fraction=1, shuffle=True)
    answer = ev.decide(one, events(), later, rule=rule, **COSTS)
    row = answer.row(policy="rule")
    assert row["cost"].value == pytest.approx(loop(later["leaves"], acts))
    assert row["acted"] == pytest.approx(acts.mean())
    assert row["reached"] == pytest.approx(later["leaves"].to_numpy()[acts].sum() / later["leaves"].sum())
    assert row["model_saves"].value == pytest.approx(row["cost"].value - answer.facts["cost"].value)
    assert row["model_saves"].place == "ahead"
    line = next(line for line in answer.verdict if "Your rule" in line)
    assert f"acts on {acts.sum():,} and costs" in line
    assert "less than your rule." in line
    for kind in (pl.Int8, pl.Float64):
        numbers = rule.with_columns(pl.col("acts").cast(kind))
        assert ev.decide(one, events(), later, rule=numbers, **COSTS).rows == answer.rows


def test_a_rule_that_knows_more_is_to_be_kept(one: ev.Model) -> None:
    later = labels(range(3, 4))
    answer = ev.decide(one, events(), later, rule=later.select("card", "leaves"), **COSTS)
    assert answer.verdict[-1].endswith("more than your rule. Keep it.")
    assert answer.row(policy="rule")["reached"] == 1


def test_a_rule_may_be_level_with_the_model(one: ev.Model) -> None:
    later = labels(range(3, 4))
    p = pl.DataFrame(ev.predict(one, events(), cutoffs=later))
    answer = ev.decide(one, events(), later, rule=p.select("card", acts=pl.col("p_true") >= 0.25), **COSTS)
    assert ": the model is level with your rule (" in answer.verdict[-1]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (pl.DataFrame({"card": range(N)}), "the rule has the columns 'card'; accepted: a table with the key"),
        (pl.DataFrame({"card": range(N), "a": [0] * N, "b": [0] * N}), "and one column of booleans or of 0 and 1"),
        (pl.DataFrame({"id": range(N), "a": [0] * N}), "accepted: a table with the key 'card', the time"),
        (pl.DataFrame({"card": range(N), "a": [0.5, *[1.0] * (N - 1)]}), "other values than 0 and 1"),
        (pl.DataFrame({"card": range(N), "a": [2] * N}), "the column 'a' of the rule has other values than 0 and 1"),
        (pl.DataFrame({"card": range(N), "a": [None, *[1] * (N - 1)]}), "or missing ones"),
        (pl.DataFrame({"card": range(N - 7), "a": [1] * (N - 7)}), "says nothing of 7 of 200 rows with labels"),
        (pl.DataFrame({"card": [*range(N), 3], "a": [1] * N + [0]}), "says both 0 and 1 of one row"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(one: ev.Model, rule: pl.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ev.decide(one, events(), labels(range(3, 4)), rule=rule, **COSTS)


def test_one_of_several_classes_is_the_case(model: ev.Model) -> None:
    held = model.heads["bought"].info["scores"].held_out
    names = model.heads["bought"].class_names
    for of in names:
        answer, place = ev.decide(model, label="bought", of=of, **COSTS), names.index(of)
        is_case = held.y == place
        assert answer.facts["of"] == of
        assert answer.facts["cases"] == is_case.sum()
        expected = loop(is_case, held.predictions[:, place] >= 0.25)
        assert answer.row(policy="break-even")["cost"].value == pytest.approx(expected)


def test_classes_are_told_apart_whatever_the_label_is_called() -> None:
    """Two labels would have the probabilities p_p_a and p_p_p_a, and one label has p_a and p_p_a."""
    every = labels(range(4)).select("card", "month", p=pl.when("leaves").then(pl.lit("p_a")).otherwise(pl.lit("a")))
    is_last = pl.col("month") == every["month"].max()
    model = ev.fit(ev.read(events(), key="card", time="at"), labels=every.filter(~is_last), label="p")
    later = every.filter(is_last)
    answer = ev.decide(model, events(), later, of="a", **COSTS)
    joined = pl.DataFrame(ev.predict(model, events(), cutoffs=later)).join(later, on=["card", "month"])
    expected = loop(joined["p"] == "a", joined["p_a"].to_numpy() >= 0.25)
    assert answer.row(policy="break-even")["cost"].value == pytest.approx(expected)


def test_the_lesser_of_two_classes_may_be_the_case(one: ev.Model) -> None:
    held = one.heads["leaves"].info["scores"].held_out
    answer = ev.decide(one, of=False, **COSTS)
    assert answer.facts["of"] == "false"
    expected = loop(1 - held.y, 1 - held.predictions.astype(float) >= 0.25)
    assert answer.row(policy="break-even")["cost"].value == pytest.approx(expected)
    assert ev.decide(one, of="true", **COSTS).rows == ev.decide(one, **COSTS).rows


def test_the_decision_curve_is_that_of_a_loop(one: ev.Model) -> None:
    held = one.heads["leaves"].info["scores"].held_out
    assert "net_benefit" not in ev.decide(one, **COSTS).tables
    answer = ev.decide(one, net_benefit=True, **COSTS)
    n = len(held.y)
    for row in answer.tables["net_benefit"]:
        at, true, false = row["threshold"], 0, 0
        for case, p in zip(held.y, held.predictions, strict=True):
            true, false = true + (p >= at and case == 1), false + (p >= at and case == 0)
        assert row["model"].value == pytest.approx(true / n - false / n * at / (1 - at))
        everybody = held.y.mean() - (1 - held.y.mean()) * at / (1 - at)
        assert row["everybody"].value == pytest.approx(everybody)
        assert row["nobody"].value == 0
    assert [figure.title for figure in answer.figures] == ["What acting saves by threshold", "Net benefit by threshold"]
    assert answer.html.count("<svg") == 4


def test_verdicts(one: ev.Model) -> None:
    answer = ev.decide(one, **COSTS)
    assert answer.verdict[0].startswith("Act on those with a probability of .")
    assert f"the first {answer.facts['acted']} of {answer.facts['rows']}." in answer.verdict[0]
    assert "less than acting on nobody and" in answer.verdict[1]
    assert len(answer.verdict) <= 5
    never = ev.decide(one, action=4, case=10, saves=0.4)
    assert never.verdict[0] == (
        "Acting never pays: an action costs 4, and what it prevents is worth 4 at most, even if a case is certain."
    )
    assert never.facts["threshold"] is None
    assert never.facts["acted"] == 0
    assert "curve" not in never.tables
    assert never.row(policy="model")["cost"] == never.row(policy="nobody")["cost"]
    assert ev.decide(one, action=4, case=10, saves=0.4, net_benefit=True).html.count("<svg") == 2
    cheap = ev.decide(one, action=1e-6, case=10)
    assert np.all(np.diff([row["threshold"] for row in cheap.tables["curve"]]) > 0)
    assert cheap.verdict[0].startswith("Act on everybody")
    assert cheap.verdict[1].endswith("less than acting on nobody and the same as acting on everybody.")
    assert len(cheap.verdict) == 2
    dear = ev.decide(one, action=9.5, case=10)
    assert "which none of" in dear.verdict[0] or "Act on nobody" in dear.verdict[0]
    rng, few = np.random.default_rng(0), (np.arange(300) == 7) * 1.0
    rare = ev.decide(with_rows(one, HeldOut(few, np.full(300, 0.999), np.arange(300), np.ones(300))), **COSTS)
    assert "probability of .999" in rare.verdict[0]
    assert rare.row(policy="nobody")["cost"].low == 0
    chance = HeldOut((rng.random(300) < 0.25) * 1.0, rng.beta(3, 9, 300).astype("f4"), np.arange(300), np.ones(300))
    level = ev.decide(with_rows(one, chance), **COSTS)
    assert level.verdict[2].startswith("No gain over acting on ")


def test_a_note_says_that_probabilities_are_not_calibrated(one: ev.Model) -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(2, 6, 2000)
    y, rows = (rng.random(2000) < p) * 1.0, np.arange(2000)
    for predictions, told in ((p, False), (p / 4, True)):
        held = HeldOut(y, predictions.astype(np.float32), rows, np.ones(2000))
        answer = ev.decide(with_rows(one, held), **COSTS)
        assert any("are not calibrated" in note for note in answer.notes) == told
        size = 1 if predictions is p else 4
        assert answer.facts["threshold"] == pytest.approx(0.25 / size, rel=0.2)
    assert answer.row(policy="break-even")["model_saves"].place == "ahead"


def test_a_network_is_judged_on_given_labels() -> None:
    static = labels(range(3, 4)).select("card", "leaves")
    data = ev.read(events(), key="card", time="at", static=static, static_columns={"leaves": "categorical"})
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=8)
    model = ev.fit(data, method=ev.methods.Supervised(encoder, data.schema, "leaves"), epochs=1)
    assert class_names(model.declared.label_fields[0]) == ["false", "true"]
    with pytest.raises(ConfigError, match="because networks keep none; give events and labels"):
        ev.decide(model, **COSTS)
    answer = ev.decide(model, events(), static, label_time="none", **COSTS)
    predicted = pl.DataFrame(ev.predict(model, events())).join(static, on="card", maintain_order="left")
    expected = loop(predicted["leaves"], predicted["p_true"].to_numpy() >= 0.25)
    assert answer.row(policy="break-even")["cost"].value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"case": "40"}, "case must be a number, got '40'"),
        ({"of": "maybe"}, "the label 'leaves' has no class 'maybe'; accepted: false, true"),
        ({"of": [1]}, r"the label 'leaves' has no class '\[1\]'; accepted: false, true"),
        ({"label": "leave"}, "the model predicts no label 'leave'; did you mean 'leaves'?"),
        ({"labels": labels()}, "events and labels are given together or not at all"),
        ({"rule": labels()}, "rule is given without events and labels, and the rows that the model keeps have no keys"),
        ({"weight": "weight"}, "weight is given without events and labels"),
        ({"seeds": 1}, "there is no option 'seeds'; did you mean 'seed'?"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_calls_that_cannot_be_answered_are_refused(one: ev.Model, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ev.decide(one, **{**COSTS, **options})


def test_weights_and_tables_of_other_heads(model: ev.Model, one: ev.Model) -> None:
    later = labels(range(3, 4))
    for wrong in (0.0, float("nan"), -1.0):
        weighed = later.with_columns(weight=pl.when(pl.int_range(N) == 4).then(wrong).otherwise(1.0))
        with pytest.raises(DataError, match="weights must be finite and above 0, but 1 of 200 are not"):
            ev.decide(one, events(), weighed, weight="weight", **COSTS)
    strange = replace(model.heads["bought"], sets={"": ("absent",)})
    two = replace(model, heads={"leaves": model.heads["leaves"], "bought": strange})
    assert (
        ev.decide(two, events(), later, label="leaves", **COSTS).rows == ev.decide(one, events(), later, **COSTS).rows
    )


def test_models_and_labels_that_do_not_fit_are_refused(model: ev.Model, one: ev.Model) -> None:
    with pytest.raises(ConfigError, match="the model predicts 'leaves', 'bought'; name one: label="):
        ev.decide(model, **COSTS)
    with pytest.raises(ConfigError, match="the label 'bought' has 3 classes; name the one that is a case: of="):
        ev.decide(model, label="bought", **COSTS)
    with pytest.raises(ConfigError, match="predicts no label, because it has no head"):
        ev.decide(replace(model, heads={}), **COSTS)
    others = labels(range(3, 4)).with_columns(leaves=pl.lit("perhaps"))
    with pytest.raises(DataError, match="'perhaps', which the model did not learn; its classes are 'false', 'true'"):
        ev.decide(one, events(), others, **COSTS)
    with pytest.raises(DataError, match="are needed to judge a decision, and there are rows of 19"):
        ev.decide(one, events(), labels(range(3, 4))[:19], **COSTS)
    numbers = labels().select("card", "month", spend=pl.col("weight"))
    of_numbers = ev.fit(ev.read(events(), key="card", time="at"), labels=numbers, label="spend")
    with pytest.raises(ConfigError, match="the label 'spend' is a number, and a decision needs classes"):
        ev.decide(of_numbers, **COSTS)
    without: Callable[[Any], Any] = lambda head: replace(head, info={**head.info, "scores": None})  # noqa: E731
    with pytest.raises(ConfigError, match="that it did not learn from, because there were too few; give events"):
        ev.decide(replace(one, heads={"leaves": without(one.heads["leaves"])}), **COSTS)
