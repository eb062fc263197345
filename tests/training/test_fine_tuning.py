"""`fine_tune`: a copy of a run's encoder learns labels; the run, and the entities that it held out, stay apart."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

import eventvec as ev
from eventvec.tables import attach, holdout_mask
from fits import Interrupted, coles, dataset, interrupt_after, labels, same, table, weights


@pytest.fixture(scope="module")
def run() -> ev.Model:
    """Return a run that held out a quarter of the entities."""
    return ev.fit(dataset(holdout=0.25, holdout_seed=3), method="ocp", epochs=1)


@pytest.fixture(scope="module")
def everyone(run: ev.Model) -> ev.Dataset:
    """Return all entities, those that were held out too."""
    return run.read(table())


def held_out(data: ev.Dataset) -> Any:
    return holdout_mask(data.keys, 0.25, 3)


def test_the_run_stays_as_it_was_and_its_encoder_is_the_start(run: ev.Model, everyone: ev.Dataset) -> None:
    before = weights(run.method)
    tuned = ev.fine_tune(run, everyone, labels(), "churn", epochs=1, encoder_lr=1e-12)
    assert same(weights(run.method), before)
    assert tuned.encoder is not run.encoder
    for name, value in tuned.encoder.named_parameters():  # the running statistics change
        torch.testing.assert_close(value, before[f"encoder.{name}"], rtol=0, atol=1e-9)
    moved = ev.fine_tune(run, everyone, labels(), "churn", epochs=1)
    assert not same(weights(moved.encoder), weights(run.encoder))
    assert (tuned.config["method"]["name"], tuned.config["method"]["label"]) == ("supervised", "churn")
    assert ev.predict(tuned, table()).column_names == ["id", "prediction", "p_yes", "p_no"]
    from_table = ev.fine_tune(run, table(), labels(), "churn", epochs=1)
    assert same(weights(from_table.method), weights(moved.method))


def test_entities_that_were_held_out_stay_held_out(run: ev.Model, everyone: ev.Dataset) -> None:
    n_held_out = int(held_out(everyone).sum())
    assert 0 < n_held_out < 40
    tuned = ev.fine_tune(run, everyone, labels(), "churn", epochs=1)
    assert tuned.usable == 40 - n_held_out
    assert f"{n_held_out} of 40 entities were held out by run {run.id} and are left out" in tuned.notes
    z = tuned.embed(table())
    assert z.held_out.tolist() == held_out(everyone).tolist()
    rest = everyone[~held_out(everyone)]
    alone = ev.fine_tune(run, rest, labels(), "churn", epochs=1)
    assert same(weights(alone.method), weights(tuned.method))
    already = ev.fine_tune(run, dataset(holdout=0.25, holdout_seed=3), labels(), "churn", epochs=1)
    assert same(weights(already.method), weights(tuned.method))
    assert not any("held out" in note for note in already.notes)


def test_entities_held_out_by_any_run_before_are_left_out(run: ev.Model, everyone: ev.Dataset) -> None:
    half = ev.read(table(), schema=run.schema, holdout=0.5)
    views = ev.views.RandomSlices(count=3, shortest=5, longest=15)
    second = ev.fit(half, method=ev.methods.CoLES(copy.deepcopy(run.encoder), views), epochs=1)
    either = held_out(everyone) | holdout_mask(everyone.keys, 0.5, 0)
    assert 0 < held_out(everyone).sum() < either.sum() < 40
    for data in (everyone, half, dataset(holdout=0.25, holdout_seed=3)):
        assert ev.fine_tune(second, data, labels(), "churn", epochs=1).usable == 40 - int(either.sum())


def test_labels_and_holdouts_of_all_runs_are_recorded(tmp_path: Path) -> None:
    data = dataset(holdout=0.25, holdout_seed=3)
    first = ev.fit(data, method="ocp", epochs=1, out=tmp_path / "first")
    second = ev.fine_tune(first, data, labels(), "churn", epochs=1)
    third = ev.fine_tune(second, data, labels().rename({"churn": "likes"}), "likes", epochs=1, out=tmp_path / "third")
    assert third.info["labels"] == ["churn", "likes"]
    assert [each["run"] for each in third.info["holdouts"]] == [first.id, second.id, third.id]
    assert {(each["fraction"], each["seed"]) for each in third.info["holdouts"]} == {(0.25, 3)}
    assert (second.info["from"], third.info["from"]) == (first.id, second.id)
    assert second.config["encoder"]["from"] == str(tmp_path / "first")
    assert "from" not in third.config["encoder"]  # the second run has no folder
    loaded = ev.load(tmp_path / "third")
    assert loaded.lineage == third.lineage
    metadata = loaded.embed(table()).metadata
    assert (metadata["run"], metadata["labels"], metadata["holdouts"]) == (
        third.id, ["churn", "likes"], third.info["holdouts"],
    )  # fmt: skip


def test_it_equals_fit_with_the_label_as_a_static_column(tmp_path: Path) -> None:
    run = ev.fit(dataset(), method="ocp", epochs=1, out=tmp_path / "run")
    tuned = ev.fine_tune(run, dataset(), labels(), "churn", epochs=2, seed=5, freeze=1)
    tables = {"method": {"name": "supervised", "label": "churn"}, "encoder": {"from": str(run.path)}}
    same_by_tables = ev.fit(attach(dataset(), labels()), method=tables, epochs=2, seed=5, freeze=1)
    assert same(weights(tuned.method), weights(same_by_tables.method))
    assert {**tuned.config, "data": {}} == {**same_by_tables.config, "data": {}}


def test_a_fine_tuning_that_was_interrupted_resumes_to_the_same_weights(
    run: ev.Model, everyone: ev.Dataset, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"epochs": 3, "batch_size": 8, "freeze": 1, "checkpoint_every": 2}
    whole = ev.fine_tune(run, everyone, labels(), "churn", **settings)
    settings["out"] = tmp_path / "tuned"
    with pytest.raises(Interrupted):
        ev.fine_tune(run, everyone, labels(), "churn", progress=interrupt_after(5), **settings)
    resumed = ev.fine_tune(run, everyone, labels(), "churn", resume=True, **settings)
    assert same(weights(whole.method), weights(resumed.method))
    assert resumed.schema == ev.load(tmp_path / "tuned").schema


def test_entities_without_a_label_are_left_out_and_counted(run: ev.Model, everyone: ev.Dataset) -> None:
    some = labels().with_columns(churn=pl.when(pl.col("id") < 20).then("churn"))
    tuned = ev.fine_tune(run, everyone, some, "churn", epochs=1)
    assert tuned.usable == int((~held_out(everyone))[:20].sum())
    assert any("entities cannot be used by this method" in note for note in tuned.notes)


def test_numbers_are_predicted_as_numbers(run: ev.Model, everyone: ev.Dataset) -> None:
    ages = pl.DataFrame({"id": range(40), "age": [20.5 + i for i in range(40)]})
    assert ev.predict(ev.fine_tune(run, everyone, ages, "age", epochs=1), table()).column_names == ["id", "prediction"]


def test_labels_may_have_the_name_of_the_key_in_files(run: ev.Model) -> None:
    data = run.read(table(), key_as="customer")
    tuned = ev.fine_tune(run, data, labels().rename({"id": "customer"}), "churn", epochs=1)
    assert tuned.info["labels"] == ["churn"]


@pytest.mark.parametrize(
    ("change", "label", "error", "message"),
    [
        (lambda t: t, "chrn", ev.DataError, r"has no column 'chrn'; did you mean 'churn'\? accepted: churn, id"),
        (lambda t: t.rename({"id": "x"}), "churn", ev.DataError, "table has no column 'id'; accepted: churn, x"),
        (
            lambda t: t.with_columns(churn=pl.lit(None, pl.String)), "churn", ev.ConfigError,
            "static column 'churn' is left out: it holds no value; a label must hold classes or numbers",
        ),
        (lambda t: t, "id", ev.ConfigError, "the label 'id' is the key; name the column to predict"),
        (lambda t: t.with_columns(churn=pl.lit("no")), "churn", ev.ConfigError, "it is constant; .* at least 2"),
        (
            lambda t: t.with_columns(churn=pl.concat_list(pl.lit(1.0), pl.lit(2.0))), "churn", ev.ConfigError,
            "label must be a categorical or numeric column, got 'churn', which is vector",
        ),
        (lambda t: t.with_columns(id=pl.col("id") + 99), "churn", ev.DataError, "none of 40 rows of the static table"),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_used_are_refused(
    run: ev.Model, everyone: ev.Dataset, change: Any, label: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ev.fine_tune(run, everyone, change(labels()), label, epochs=1)


def test_what_cannot_be_fine_tuned_is_refused(run: ev.Model, everyone: ev.Dataset) -> None:
    with pytest.raises(ev.ConfigError, match="there is no option 'epoch'; did you mean 'epochs'"):
        ev.fine_tune(run, everyone, labels(), "churn", epoch=1)
    with pytest.raises(ev.DataError, match="by another schema than the model's; the two differ in categorical"):
        ev.fine_tune(run, dataset(), labels(), "churn", epochs=1)
    with pytest.raises(ev.DataError, match=rf"entities were held out by run {run.id}; give those that it was trained"):
        ev.fine_tune(run, everyone[held_out(everyone)], labels(), "churn", epochs=1)
    with pytest.raises(ev.ConfigError, match="the data have a static column 'churn' already"):
        ev.fine_tune(run, attach(everyone, labels()), labels(), "churn", epochs=1)


def test_a_method_put_together_in_python_can_be_fine_tuned() -> None:
    run = ev.fit(dataset(), method=coles(dataset()), epochs=1)
    tuned = ev.fine_tune(run, dataset(), labels(), "churn", epochs=1)
    assert tuned.config["encoder"] == run.config["encoder"]
