"""The command line: from a file of events to an evaluation, with labels and hold-out sets, and mistakes of the user."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import stat
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eventvec as ev
from commands import answer, customer_labels, invoke, purchases
from eventvec.answers import Answer
from eventvec.cli import app
from eventvec.cli.doctor import EXTRAS
from eventvec.evaluation import Unfinished

LINEAR = ("--models", "logistic_regression")
"""Options of evaluations whose models do not matter, as boosted trees take most of the time."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with events of 80 customers, half of whom like tea, their labels, a run and its embeddings."""
    path, customers = tmp_path_factory.mktemp("cli"), [f"secret-{i:03}" for i in range(80)]
    purchases(customers, 30).write_parquet(path / "events.parquet")
    decided = pl.Series("decided", [f"2024-01-{10 + i % 10}T00:00:00" for i in range(80)]).str.to_datetime()
    customer_labels(customers).with_columns(decided).write_parquet(path / "labels.parquet")
    arguments = ("--key", "customer", "--time", "when", "--epochs", 3, "--holdout", 0.25)
    options = ("--set", "encoder.dim=8", "--set", "fit.beside=[]")
    answer("fit", "--events", path / "events.parquet", *arguments, "--out", path / "run", *options)
    answer("embed", path / "run", path / "events.parquet", "-o", path / "z.parquet")
    return path


def of_likes(folder: Path, *further: object, z: Path | None = None) -> tuple[object, ...]:
    """Return the arguments of an evaluation of all events, whenever the labels became known."""
    files = (z or folder / "z.parquet", folder / "labels.parquet")
    return ("evaluate", *files, "--no-label-time", "--label", "likes", *further)


def test_one_row_per_entity_with_key_count_and_last_time(folder: Path) -> None:
    z = pl.read_parquet(folder / "z.parquet")
    assert z.columns == ["customer", "embedding", "events", "last_time"]
    assert z["customer"].to_list() == [f"secret-{i:03}" for i in range(80)]
    assert z["embedding"].dtype == pl.Array(pl.Float32, 8)
    assert set(z["events"]) == {30}
    assert z["last_time"][0] == pl.read_parquet(folder / "events.parquet")["when"].max()
    assert stat.S_IMODE((folder / "z.parquet").stat().st_mode) == 0o600
    metadata = json.loads(pq.read_metadata(folder / "z.parquet").metadata[b"eventvec"])
    assert metadata["key"] == "customer"
    assert metadata["run"] == ev.load(folder / "run").id


def test_the_evaluation_follows_the_contract(folder: Path) -> None:
    result = answer(
        "evaluate", folder / "z.parquet", folder / "labels.parquet", "--label", "likes", "--folds", 2,
        "--events", folder / "events.parquet", "--fractions", "1,0.5", "--no-label-time",
    )  # fmt: skip
    assert {"label", "task", "metric", "n", "folds", "results", "differences"} <= result.keys()
    assert (result["label"], result["task"], result["metric"], result["n"], result["folds"]) == (
        "likes", "binary", "auroc", 80, 2,
    )  # fmt: skip
    cells = {(r["features"], r["model"], r["fraction"]) for r in result["results"]}
    sets = {"embedding", "handcrafted", "embedding_handcrafted", "handcrafted_again", "untrained"}
    assert cells >= {(f, "stacked", s) for f in sets for s in (1.0, 0.5)}
    assert all(f in sets or f == "embedding: learned" for f, _, _ in cells)
    assert result["verdict"].startswith("Too good to be true: ")  # the share of tea gives the label away
    assert " of the column 'bought' alone predicts 'likes' with an AUROC of " in result["verdict"]
    assert result["verdict"].partition("rows repeat. ")[2].startswith(("Use it ", "Do not use it yet for likes"))
    assert all(len(r["scores"]) == 2 and set(r["weights"]) for r in result["results"])
    best = {r["features"]: r["score"] for r in result["results"] if r["fraction"] == 1}
    assert best["handcrafted"]["low"] <= best["handcrafted"]["value"] <= best["handcrafted"]["high"]
    assert best["handcrafted"]["value"] > 0.95
    assert any("without labels" in note for note in result["notes"])


def test_ctrl_c_prints_what_is_finished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished = Answer(("Use it for likes.", "Interrupted before these were scored: mine."), {"results": []})

    def interrupted(*_: object, **__: object) -> None:
        raise Unfinished(finished)

    monkeypatch.setattr("eventvec.evaluation.evaluate", interrupted)
    result = invoke(*of_likes(folder))
    assert result.exit_code != 0
    assert result.stdout.startswith("Use it for likes.\nInterrupted before these were scored: mine.\n")


def test_an_evaluation_can_name_its_models(folder: Path) -> None:
    arguments = of_likes(folder, "--models")
    assert {r["model"] for r in answer(*arguments, "knn,stacked")["results"]} == {"knn", "stacked"}
    result = invoke(*arguments, "knm")
    assert result.exit_code == 2
    assert "no model 'knm' for a binary label; did you mean 'knn'" in " ".join(result.stderr.split())


def test_own_features_are_named_by_their_files(folder: Path, tmp_path: Path) -> None:
    keys = pl.read_parquet(folder / "labels.parquet")["customer"]
    pl.DataFrame({"customer": keys, "v": range(len(keys))}).write_csv(tmp_path / "mine.csv")
    arguments = of_likes(folder, "--models", "knn")
    result = answer(*arguments, "--features", tmp_path / "mine.csv")
    assert [r["features"] for r in result["results"]] == ["embedding", "mine"]
    assert ", mine ." in result["verdict"]


def test_groups_and_holdout_are_printed_as_tables(folder: Path) -> None:
    arguments = of_likes(folder, "--folds", 3)
    for option, sentence in ((("--group", "shop"), "without labels"), (("--holdout",), "never saw")):
        result = invoke(*arguments, *option, "--full")
        assert result.exit_code == 0, result.output
        assert sentence in " ".join(result.stdout.split())
        assert "±" in result.stdout


def test_training_never_sees_the_entities_that_are_held_out(folder: Path, tmp_path: Path) -> None:
    arguments = ("--key", "customer", "--time", "when", "--epochs", 1, "--holdout", 0.25, "--seed", 7)
    answer(
        "fit", "--events", folder / "events.parquet", *arguments, "--out", tmp_path / "run", "--set", "encoder.dim=4"
    )
    answer("embed", tmp_path / "run", folder / "events.parquet", "-o", tmp_path / "z.parquet")
    z = ev.read_embeddings(tmp_path / "z.parquet")
    seen = z.keys.filter(pa.array(~z.held_out))
    events = pl.read_parquet(folder / "events.parquet").filter(pl.col("customer").is_in(seen.to_pylist()))
    alone = ev.read(events, key="customer", time="when")
    assert 0 < len(alone) < 80
    assert ev.load(tmp_path / "run").info["fingerprint"] == alone.fingerprint


def test_a_cut_in_time_holds_from_embedding_to_evaluation(folder: Path, tmp_path: Path) -> None:
    z = tmp_path / "z.parquet"
    answer("embed", folder / "run", folder / "events.parquet", "-o", z, "--until", "2024-01-15")
    assert str(pl.read_parquet(z)["last_time"].max()) < "2024-01-15"
    evaluate = ("evaluate", z, folder / "labels.parquet", "--label", "likes", "--folds", 3, *LINEAR)
    answer(*evaluate, "--no-label-time", "--events", folder / "events.parquet")  # the file records the cut
    late = invoke("evaluate", folder / "z.parquet", *evaluate[2:], "--no-label-time", "--until", "2024-01-15")
    assert late.exit_code == 1
    assert "DataError" in late.output
    cutoffs = ("--cutoffs", folder / "labels.parquet", "--cutoff-column", "decided")
    answer("embed", folder / "run", folder / "events.parquet", "-o", z, *cutoffs)
    answer(*evaluate, "--events", folder / "events.parquet", "--label-time", "decided")
    leaky = invoke("evaluate", folder / "z.parquet", *evaluate[2:], "--label-time", "decided")
    assert leaky.exit_code == 1
    assert "80 of 80 embeddings were made from events at or after the time in 'decided'" in leaky.output


def test_label_tables_with_another_key_name_and_repeated_rows(folder: Path, tmp_path: Path) -> None:
    labels = pl.read_parquet(folder / "labels.parquet").rename({"customer": "who"})
    pl.concat([labels, labels[:5], labels[:2].with_columns(who=pl.lit(None, pl.String))]).write_parquet(
        tmp_path / "labels.parquet"
    )
    cutoffs = ("--cutoffs", folder / "labels.parquet", "--cutoff-column", "decided")
    answer("embed", folder / "run", folder / "events.parquet", "-o", tmp_path / "z.parquet", *cutoffs)
    result = answer(
        "evaluate", tmp_path / "z.parquet", tmp_path / "labels.parquet", "--label", "likes", "--folds", 3,
        "--key", "who", "--label-time", "decided", "--events", folder / "events.parquet", *LINEAR,
    )  # fmt: skip
    assert result["n"] == 80
    assert any(note.startswith("5 rows") and "merged" in note for note in result["notes"])
    assert any(note.startswith("2 rows") and "no key" in note for note in result["notes"])


def test_aggregates_of_other_events_than_those_embedded_are_refused(folder: Path, tmp_path: Path) -> None:
    pl.read_parquet(folder / "events.parquet")[:1000].write_parquet(tmp_path / "other.parquet")
    result = invoke(
        "evaluate", folder / "z.parquet", folder / "labels.parquet", "--label", "likes",
        "--events", tmp_path / "other.parquet",
    )  # fmt: skip
    assert result.exit_code == 1
    assert "DataError" in result.output


def test_wide_normalized_and_renamed(folder: Path, tmp_path: Path) -> None:
    z = tmp_path / "wide.parquet"
    answer("embed", folder / "run", folder / "events.parquet", "-o", z, "--wide", "--normalize", "--key-as", "who")
    frame = pl.read_parquet(z)
    assert frame.columns == ["who", *(f"emb_{i:03}" for i in range(8)), "events", "last_time"]
    lengths = frame.select(pl.sum_horizontal(pl.col(r"^emb_\d+$") ** 2)).to_series()
    assert np.allclose(lengths, 1, atol=1e-5)


def test_a_dry_run_shows_the_schema_and_writes_nothing(folder: Path) -> None:
    arguments = ("fit", "--events", folder / "events.parquet", "--key", "customer", "--time", "when", "--dry-run")
    described = answer(*arguments)
    kinds = {row["name"]: row["kind"] for row in described["columns"]}
    assert kinds["bought"] == "categorical"
    assert kinds["amount"] == "numeric"
    assert described["config"]["method"]["name"] == "coles"
    result = invoke(*arguments)
    assert "bought" in result.stdout
    assert "secret" not in result.output


def test_a_configuration_and_changes_to_it(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        f'[data]\npath = "{folder}/events.parquet"\nkey = "customer"\ntime = "when"\ncategorical = ["bought"]\n'
        '[encoder]\nname = "lstm"\ndim = 4\nevents = { time = ["gap", "hour"] }\n'
        '[method]\nname = "ocp"\nlength = 3\n[fit]\nepochs = 1\n'
    )
    answer("fit", path, "--set", "method.length=5", "--out", tmp_path / "run", "--seed", 7)
    run = ev.load(tmp_path / "run")
    assert (run.config["method"], run.info["seed"]) == ({"name": "ocp", "length": 5, "skip": 0, "count": 1}, 7)
    assert run.encoder.events.time == ("gap", "hour")  # type: ignore[union-attr]


def test_a_trained_encoder_learns_labels_and_predicts_them_without_its_parent_run(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    first = ev.load(tmp_path / "run")
    pl.read_parquet(folder / "labels.parquet")[8:].write_parquet(tmp_path / "known.parquet")
    arguments = ("--static", tmp_path / "known.parquet", "--method", "supervised", "--set", "method.label=likes")
    fit = ("fit", "--events", folder / "events.parquet", *arguments, "--epochs", 20, "--set", "fit.lr=0.01")
    result = invoke(*fit, "--from", tmp_path / "run", "--out", tmp_path / "tuned")
    assert result.exit_code == 0, result.output
    assert "8 of 80 entities have no row in the static table" in result.output
    shutil.rmtree(tmp_path / "run")
    tuned = ev.load(tmp_path / "tuned")
    assert tuned.info["from"] == first.id
    assert tuned.config["encoder"] == {**first.config["encoder"], "from": str(tmp_path / "run")}
    assert (tuned.schema.categorical, tuned.schema.gap) == (first.schema.categorical, first.schema.gap)
    assert [field.name for field in tuned.schema.static] == ["likes"]  # the schema has neither the shop nor the time
    assert tuned.config["data"]["static"] == str(tmp_path / "known.parquet")
    assert f"The training started from the model {first.id}." in (tmp_path / "tuned" / "README.md").read_text()
    output = tmp_path / "p.parquet"
    answer("predict", tmp_path / "tuned", folder / "events.parquet", "-o", output)
    predictions, truth = pl.read_parquet(output), pl.read_parquet(folder / "labels.parquet")["likes"]
    assert set(predictions.columns) == {"customer", "prediction", "p_true", "p_false"}
    assert ((predictions["prediction"] == "true") == truth)[:8].all()  # the run never saw their labels
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert json.loads(pq.read_metadata(output).metadata[b"eventvec"])["run"] == tuned.id
    answer("embed", tmp_path / "tuned", folder / "events.parquet", "-o", tmp_path / "z.parquet")  # needs no labels
    evaluate = of_likes(folder, "--folds", 3, z=tmp_path / "z.parquet")
    assert any("was trained on the static column 'likes' too" in note for note in answer(*evaluate)["notes"])


def test_labels_and_holdouts_of_all_earlier_runs_are_recorded(folder: Path, tmp_path: Path) -> None:
    labels, events = pl.read_parquet(folder / "labels.parquet"), folder / "events.parquet"
    speed = pl.Series("speed", np.random.default_rng(1).normal(size=80))
    labels.select("customer", "likes", speed).write_parquet(tmp_path / "static.parquet")
    common = ("--static", tmp_path / "static.parquet", "--epochs", 1)
    supervised = ("--method", "supervised", "--set", "method.label=likes", *common)
    expclr = ("--method", "expclr", "--set", 'method.features=["speed"]', *common)

    def embedded(name: str, *arguments: object) -> tuple[Path, dict[str, Any]]:
        """Train and embed; return the path of the embeddings and their metadata."""
        z = tmp_path / f"{name}.parquet"
        answer("fit", "--events", events, "--key", "customer", "--time", "when", *arguments, "--out", tmp_path / name)
        answer("embed", tmp_path / name, events, "-o", z)
        return z, json.loads(pq.read_metadata(z).metadata[b"eventvec"])

    def evaluate(z: Path, *arguments: object) -> Any:
        return invoke(*of_likes(folder, "--folds", 3, "--full", *arguments, z=z))

    _, first = embedded("r_sup", "--set", "encoder.dim=4", *supervised)
    z, second = embedded("r_exp", "--from", tmp_path / "r_sup", *expclr, "--holdout", 0.3)
    assert (first["labels"], second["labels"]) == (["likes"], ["likes", "speed"])
    assert second["holdouts"][:1] == first["holdouts"]
    holdouts = [(run["run"], run["fraction"], run["seed"]) for run in second["holdouts"]]
    assert holdouts == [(first["run"], None, 0), (second["run"], 0.3, 0)]
    assert len({run["fingerprint"] for run in second["holdouts"]}) == 2
    printed = " ".join(evaluate(z).stdout.split())
    assert "was trained on the static columns 'likes', 'speed' too" in printed
    assert "without labels" not in printed
    card = (tmp_path / "r_exp" / "README.md").read_text()
    assert "trained from the static columns `likes`, `speed`" in card
    assert "without labels" not in card
    refused = evaluate(z, "--holdout")
    assert refused.exit_code == 2
    assert "2 runs that did not hold the same entities out (none, then 0.3 by seed 0)" in refused.output
    answer("predict", tmp_path / "r_sup", events, "-o", tmp_path / "p.parquet")
    metadata = json.loads(pq.read_metadata(tmp_path / "p.parquet").metadata[b"eventvec"])
    assert (metadata["labels"], metadata["holdouts"]) == (["likes"], first["holdouts"])
    same, third = embedded("r_same", "--from", folder / "run", *supervised, "--holdout", 0.25)
    assert [run["fraction"] for run in third["holdouts"]] == [0.25, 0.25]
    tested = evaluate(same, "--holdout")
    assert tested.exit_code == 0, tested.output
    assert "never saw" in tested.output


def test_for_embeddings_of_another_encoder_it_is_not_known_whether_it_was_trained_on_labels(
    folder: Path, tmp_path: Path
) -> None:
    data = ev.read(folder / "events.parquet", key="customer", time="when")
    ev.write(tmp_path / "z.parquet", ev.Embeddings.of(data, np.random.default_rng(0).normal(size=(80, 4))))
    result = answer(*of_likes(folder, "--folds", 3, z=tmp_path / "z.parquet"))
    assert any("whether it was trained on labels is not known" in note for note in result["notes"])


def test_a_dry_run_shows_static_columns(folder: Path) -> None:
    arguments = ("fit", "--events", folder / "events.parquet", "--key", "customer", "--time", "when", "--dry-run")
    listed = ("--static", folder / "labels.parquet", "--set", "data.static_columns.shop=numeric")
    kinds = {row["name"]: row["kind"] for row in answer(*arguments, *listed)["columns"]}
    assert kinds.get("shop") == "static numeric"
    assert "likes" not in kinds


def test_a_dry_run_says_which_static_columns_are_inputs(folder: Path) -> None:
    arguments = ("fit", "--events", folder / "events.parquet", "--key", "customer", "--time", "when", "--dry-run")
    kinds = ("--set", "data.static_columns.likes=categorical", "--set", "data.static_columns.shop=numeric")
    static = ("--static", folder / "labels.parquet", *kinds)
    learned = ("--method", "supervised", "--set", "method.label=likes")
    assert answer(*arguments, *static)["notes"][-1].startswith("static columns: 'likes', 'shop' not read, because")
    unread = answer(*arguments, *static, *learned)["notes"][-1]
    assert unread.startswith("static columns: 'likes' learned from, 'shop' not read, because")
    read = answer(*arguments, *static, *learned, "--set", 'method.static_inputs=["shop"]')["notes"][-1]
    assert read == "static columns: 'shop' inputs of the model, 'likes' learned from"


FIT = ("fit", "--events", "{e}", "--key", "customer", "--time", "when")
ROLES = ("--key", "customer", "--time", "when")
EVALUATE = ("evaluate", "{z}", "{l}", "--label", "likes", "--no-label-time")
LABELS = ("labels", "{e}", "--every", "1d", "--horizon", "1d", "-o", "x")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("fit", "--out", "x"), 2, "name the events to learn from: --events FILE"),
        (("fit", "--events", "absent.parquet", "--key", "a", "--time", "b", "--out", "x"), 1, "absent.parquet"),
        (("fit", "--events", "{e}", "--key", "custmer", "--time", "when", "--out", "x"), 1, "customer"),
        (FIT, 2, "--out FOLDER"),
        ((*FIT, "--out", "x", "--method", "cole"), 2, "coles"),
        ((*FIT, "--out", "x", "--set", "fit.epoch=1"), 2, "epochs"),
        ((*FIT, "--out", "x", "--time-budget", "soon"), 2, "120s"),
        ((*FIT, "--out", "x", "--cutoff-column", "t"), 2, "cutoff_column is given without cutoffs"),
        ((*FIT, "--out", "x", "--cutoffs", "{l}"), 2, "cutoffs is given without cutoff_column; give both"),
        ((*FIT, "--out", "x", "--set", "encoder.dim=1000000000"), 2, "choose smaller sizes, such as encoder.dim"),
        ((*FIT, "--out", "x", "--set", "encoder.layers=1000000"), 2, "layers must be at most 1000, got 1000000"),
        ((*FIT, "--out", "x", "--labels", "{l}"), 2, "give --labels TABLE and --label COLUMN together"),
        ((*FIT, "--out", "x", "--holdout", "1"), 2, "holdout must be above 0 and below 1"),
        ((*FIT, "--out", "x", "--set", "data.hold_out=0.2"), 2, "did you mean 'holdout'"),
        ((*FIT, "--out", "x", "--from", "{run}", "--set", "data.static_columns.shop=text"), 2, "without static"),
        (("fit", "--events", "", "--key", "customer", "--time", "when", "--out", "x"), 2, "'--events': it is empty"),
        ((*FIT, "--out", "x", "--from", " "), 2, "'--from': it is empty; give a value, or leave it out"),
        ((*FIT, "--out", "x", "--static", ""), 2, "--static is empty; give a value, or leave it out"),
        ((*FIT, "--out", "x", "--time-budget", ""), 2, "--time-budget is empty; give a value, or leave it out"),
        (("embed", "{run}", "", "-o", "z.parquet"), 2, "'EVENTS': it is empty; give a value, or leave it out"),
        (("update", "{run}", "", "--state", "s", "-o", "z.parquet"), 2, "it is empty; give a value, or leave it out"),
        (("evaluate", "{z}", "", "--label", "likes"), 2, "'EVENTS|LABELS': it is empty; give a value, or leave it out"),
        ((*FIT, "--out", "x", "--device", "moon"), 2, "doctor"),
        (("fit", "--events", "absent", "--key", "a", "--time", "b", "--out", "x", "--device", "meta"), 2, "doctor"),
        (("embed", "absent", "{e}", "-o", "z.parquet", "--device", "meta"), 2, "device 'meta' cannot be used here"),
        (("predict", "absent", "{e}", "-o", "z.parquet", "--device", "hpu"), 2, "device 'hpu' cannot be used here"),
        (("update", "absent", "{e}", "--state", "s", "-o", "z.parquet", "--device", "meta"), 2, "doctor"),
        (("fit", "absent.toml", "--out", "x"), 2, "cannot read the configuration"),
        ((*FIT, "--out", "x", "--method", "supervised"), 2, "supervised needs label"),
        ((*FIT, "--out", "x", "--method", "supervised", "--set", "method.label=likes"), 2, "give a table with"),
        ((*FIT, "--out", "x", "--static", "{l}", "--set", "data.static_columns.shop=text"), 1, "cannot be text"),
        ((*FIT, "--out", "x", "--from", "absent"), 1, "absent does not exist"),
        ((*FIT, "--out", "x", "--from", "{run}", "--encoder", "lstm"), 2, "leave it out"),
        ((*FIT, "--out", "x", "--from", "{run}", "--categorical", "bought"), 2, "together with a schema"),
        (("predict", "{run}", "{e}", "-o", "p.parquet"), 2, "predicts no label, because it has no head"),
        (("surprise", "{run}", "{e}", "-o", "s.parquet"), 2, "the method CoLES gives no surprise of events"),
        (("surprise", "{run}", "{e}", "-o", "{e}"), 2, "is an input; name another file to write"),
        (("predict", "absent", "{e}", "-o", "."), 2, "is a folder; name a file to write"),
        (("embed", "absent", "{e}", "-o", "."), 2, "is a folder; name a file to write"),
        (("embed", "absent", "{e}", "-o", "z.parquet"), 1, "absent does not exist"),
        (("embed", "{run}", "{e}", "-o", "z.csv"), 2, "z.csv: output is Parquet or a database table; name a file that"),
        (("features", "{e}", *ROLES, "-o", "z.JSON"), 2, "name a file that ends in .parquet"),
        (("predict", "{run}", "{e}", "-o", "p.csv.gz"), 2, "name a file that ends in .parquet"),
        (("search", "{z}", "--key", "c1", "-o", "hits.xlsx"), 2, "name a file that ends in .parquet"),
        (("embed", "{run}", "{e}", "-o", "z.parquet", "--precision", "float16"), 2, "bfloat16"),
        (("evaluate", "{e}", "{l}", "--label", "likes"), 1, "is not an embeddings file"),
        (("evaluate", "{z}", "{l}", "--label", "liked"), 1, "likes"),
        (("evaluate", "{z}", "{l}", "--label", "likes", "--fractions", "all"), 2, "must be numbers separated"),
        ((*EVALUATE, "--fractions", "2"), 2, "fractions must be in (0, 1], got 2"),
        ((*EVALUATE, "--folds", "1"), 2, "folds must be at least 2, got 1"),
        ((*EVALUATE, "--task", "regression"), 2, "task 'regression' is not known"),
        (("evaluate", "{z}", "{l}", "--label", "likes", "--label-time", "likes"), 1, "'likes'"),
        (("labels", "{e}", "--every", "1d", "-o", "x"), 2, "Missing option '--horizon'"),
        ((*LABELS, "--time", "when"), 2, "key= must name a column"),
        ((*LABELS, *ROLES, "--every", "1M"), 2, "'1M' is no length of time for column 'when'"),
        ((*LABELS, *ROLES, "--where", "tea"), 2, "'tea' is no condition; accepted: a column, =, <, >, <= or >=, and"),
        ((*LABELS, *ROLES, "--where", "bought=te"), 2, "'bought' has no value 'te' in its vocabulary of 2 values"),
        ((*LABELS, *ROLES, "--where", "bought>2"), 1, "column 'bought' is numeric but has"),
        ((*LABELS, *ROLES, "--horizon", "1y"), 1, "no snapshot was observed over its horizon"),
        (("labels", "{e}", *ROLES, "--every", "1d", "--horizon", "1d", "-o", "{e}"), 2, "is an input; name another"),
        (("drift", "{e}", "{e}", "--key", "customer"), 2, "time= must name a column"),
        (("update", "{run}", "--state", "s.db"), 2, "give NEW_EVENTS and -o FILE"),
        (("embed",), 2, "Missing argument"),
        (("nonsense",), 2, "No such command"),
    ],
)  # fmt: skip
def test_a_mistake_gets_one_sentence_and_its_exit_code(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"e": "events.parquet", "l": "labels.parquet", "z": "z.parquet", "run": "run"}
    result = invoke(*(text.format(**{k: str(folder / v) for k, v in names.items()}) for text in arguments))
    assert result.exit_code == code, result.output
    assert sentence in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output
    assert "secret" not in result.output
    assert not list(tmp_path.iterdir())  # no file is half-written


def test_doctor_verifies_a_store_and_names_the_file_and_column_that_are_damaged(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ev.read(folder / "events.parquet", key="customer", time="when", store=store)
    files = [file.stat().st_size for file in store.iterdir()]
    assert answer("doctor", store) == {"store": str(store), "files": len(files), "bytes": sum(files)}
    shown = invoke("doctor", store).output
    assert shown.startswith(f"{store} holds what its build wrote: {len(files)} files, {sum(files):,} bytes")
    gap = json.loads((store / "store.json").read_text())["arrays"]["columns"]["gap"]["file"]
    content = bytearray((store / gap).read_bytes())
    content[1] ^= 1
    (store / gap).write_bytes(content)
    for more in ((), ("--json",)):
        result = invoke("doctor", store, *more)
        assert result.exit_code == 1
        assert f"is damaged: {gap} (column 'gap') is not what the build wrote; delete the folder" in result.output


def test_doctor_verifies_a_state_store_and_finds_a_flipped_bit_of_a_key(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    updated = ev.update(ev.load(folder / "run"), folder / "events.parquet", state)
    n = len(updated.embeddings.keys)
    assert answer("doctor", state) == {"store": str(state), "entities": n, "answers": n}
    assert f"{state} holds what was written: {n} entities, {n} answers" in invoke("doctor", state).output
    content = bytearray(state.read_bytes())
    content[content.index(str(updated.embeddings.keys[0]).encode())] ^= 1
    state.write_bytes(content)
    result = invoke("doctor", state)
    assert (result.exit_code, "state.db is damaged: states are absent or not what" in result.output) == (1, True)


def test_doctor_shows_versions_and_devices() -> None:
    shown = answer("doctor")
    assert shown["version of eventvec"] != "not installed"
    assert "cpu" in shown["devices"]
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    modules = {
        "faiss-cpu": "faiss",
        "mlflow-skinny": "mlflow",
        "ray[data]": "ray",
    }  # where the module has another name than the package
    extras = {
        extra: [
            modules.get(name, name.replace("-", "_"))
            for name in (package.split(">")[0] for package in packages if not package.startswith("eventvec["))
        ]
        for extra, packages in project["optional-dependencies"].items()
        if extra not in ("demo", "test", "slow", "dev", "docs")  # the last builds the site, the others are for tests
    }
    assert extras == EXTRAS
    assert {f"extra {extra}" for extra in extras} <= shown.keys()


def test_the_version_is_that_of_the_package() -> None:
    shown = invoke("--version")
    assert (shown.exit_code, shown.stdout) == (0, f"eventvec {importlib.metadata.version('eventvec')}\n")


@pytest.mark.parametrize("command", [info.name or info.callback.__name__ for info in app.registered_commands])
def test_every_command_has_an_example(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"eventvec {command}" in result.stdout


def test_the_options_of_fit_are_in_groups() -> None:
    shown = re.findall(r"^(╭─|│) +([A-Z]\w[\w ]*\w|--[a-z-]+) ", invoke("fit", "--help").stdout, flags=re.MULTILINE)
    heading, groups = "", dict[str, str]()
    for mark, name in shown:
        heading = name if mark == "╭─" else heading
        groups[name] = heading
    assert {"--events", "--method", "--out"} <= {name for name, group in groups.items() if group == "Options"}
    expected = {
        "--key": "Columns", "--time-format": "Format of the table", "--until": "Cuts in time", "--static": "Entities",
        "--store": "Storage", "--epochs": "Training", "--label": "Labels", "--label-time": "Labels",
    }  # fmt: skip
    assert expected.items() <= groups.items()


def test_help_lists_every_command_once_under_the_headings_of_the_order_of_work() -> None:
    shown = re.findall(r"^(╭─|│) ([A-Za-z]\w+)  ?", invoke("--help").stdout, flags=re.MULTILINE)
    headings = [name for mark, name in shown if mark == "╭─"]
    commands = [name for mark, name in shown if mark == "│"]
    assert headings == ["Options", "Start", "Learn", "Use", "Look", "Check"]
    assert sorted(commands) == sorted(info.name or info.callback.__name__ for info in app.registered_commands)
    order = [commands.index(name) for name in ("demo", "labels", "fit", "embed", "report", "evaluate", "audit")]
    assert order == sorted(order)
