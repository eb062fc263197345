"""The CoLES study on the paper's data sets: from small files in their formats to scores, and their settings."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from experiments.coles import __main__ as coles
from experiments.coles import arms, published
from experiments.coles import study as study_module
from experiments.coles.boosting_settings import lightgbm_settings
from experiments.coles.label_training import budget
from experiments.coles.labelled_data import refitted
from experiments.coles.study import Study

import eventvec as ev
import make
from eventvec import config
from eventvec.encoders import PaperTransformer
from eventvec.errors import ConfigError
from eventvec.learners.single_learners import Boosting
from eventvec.losses import BinomialDeviance, Histogram, Margin, Triplet
from eventvec.losses.negatives import HardNegatives
from eventvec.schema import UNKNOWN, Categorical, Schema
from eventvec.training.suggestions import suggest

ENTITIES, EVENTS = 120, 110  # more events than the shortest slice of each data set
CODES = {
    "age_group": {"day": 800, "small_group": 250},
    "rosbank": {"MCC": 100, "channel_type": 4, "currency": 4, "trx_category": 10},
    "bowl2019": {"event_id": 500, "event_code": 50, "type": 6, "title": 50, "world": 6, "correct": 4},
    "x5": {"level_3": 200, "level_4": 800, "segment_id": 120},
}
"""The categorical fields of the paper's data sets, and their numbers of codes in its public code."""
WIDTHS = {
    "age_group": ([16, 16], [127, 128]),
    "rosbank": ([24, 4, 4, 4], [16, 2, 2, 2]),
    "bowl2019": ([16, 8, 8, 8, 8, 2], [16, 8, 8, 8, 8, 2]),
    "x5": ([16, 16, 16], [32, 32, 32]),
}
"""The sizes of their embeddings there, in CoLES and in CPC."""


def schema_of(name: str) -> Schema:
    fields = (
        Categorical(field, tuple(map(str, range(count - 2)))) for field, count in CODES.get(name, {"code": 4}).items()
    )
    return Schema("id", "t", "integer", categorical=tuple(fields))


def per_event(values: np.ndarray) -> np.ndarray:
    return np.repeat(values, EVENTS)


@pytest.fixture
def files(folder: Path) -> Path:
    """Write small files in the formats of the four competitions; a tenth of the entities have no label."""
    rng = np.random.default_rng(0)
    n, total, label = np.arange(ENTITIES), ENTITIES * EVENTS, np.arange(ENTITIES) % 4
    kind = rng.integers(0, 3, total) + per_event(label)
    step = np.tile(np.arange(EVENTS), ENTITIES)
    known, seen = n < ENTITIES * 0.9, per_event(n) < ENTITIES * 0.9

    def write(name: str, table: dict[str, np.ndarray | pl.Series], rows: np.ndarray | None = None) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        frame = pl.DataFrame(table)
        (frame if rows is None else frame.filter(pl.Series(rows))).write_csv(path)

    age = {"client_id": per_event(n), "trans_date": step, "small_group": kind, "amount_rur": rng.random(total)}
    write("age_group/transactions_train.csv", age, seen)
    write("age_group/transactions_test.csv", age, ~seen)
    write("age_group/train_target.csv", {"client_id": n, "bins": label}, known)

    day = pl.Series([f"{1 + i % 28:02}OCT{17 + i // 28}:00:00:00" for i in step.tolist()])
    bank = {"PERIOD": step, "cl_id": per_event(n), "MCC": kind, "channel_type": kind % 2, "currency": kind * 0 + 810}
    bank |= {"TRDATETIME": day, "amount": rng.random(total), "trx_category": kind % 3}
    flagged = {**bank, "target_flag": per_event(label % 2), "target_sum": rng.random(total)}
    write("rosbank/train.csv", flagged, seen)
    write("rosbank/test.csv", bank, ~seen)

    last = step == EVENTS - 1
    time = pl.Series([f"2019-08-06T05:{i // 60:02}:{i % 60:02}.000Z" for i in step.tolist()])
    game = {"event_id": kind, "game_session": per_event(n) + 1000 * last, "timestamp": time}
    game |= {"event_data": np.full(total, "{}"), "installation_id": per_event(n), "event_count": step}
    game |= {"event_code": np.where(last, 2000, 3010), "game_time": step, "title": kind}
    game |= {"type": np.where(last, "Assessment", "Game"), "world": kind % 3}
    write("bowl2019/train.csv", game, seen)
    write("bowl2019/test.csv", game, ~seen)
    write("bowl2019/train_labels.csv", {"game_session": n + 1000, "accuracy_group": label}, known)

    receipt = {"client_id": per_event(n), "transaction_datetime": pl.Series(["2018-12-01 07:12:45"] * total)}
    receipt |= {"product_id": kind, "trn_sum_from_iss": rng.random(total), "regular_points_received": step * 0}
    write("x5/purchases.csv", receipt)
    products = np.arange(6)
    levels = {"level_3": products, "level_4": products, "segment_id": products, "netto": products * 0.5}
    write("x5/products.csv", {"product_id": products, **levels})
    write("x5/clients.csv", {"client_id": n, "age": np.where(known, np.array([20, 40, 50, 70])[label], 1852)})
    return folder


@pytest.mark.parametrize("name", published.PAPER)
def test_the_papers_data_sets_are_read_and_scored(name: str, files: Path, tmp_path: Path) -> None:
    study = Study.of(name, tmp_path / "runs", small=False)
    split, labelled = study.split, round(ENTITIES * 0.9)
    assert (len(study.data), len(split.target.rows), len(split.folds)) == (ENTITIES, labelled, 5)
    assert split.seen.sum() == ENTITIES - len(split.test)  # entities without a label are seen
    assert study.data.schema.key == {"age_group": "client_id", "rosbank": "cl_id", "x5": "client_id"}.get(
        name, "game_session"
    )
    small = Study.of(name, tmp_path / "runs", small=True)
    result = small.scores({"coles": [small.raw("coles", 0)], "supervised": [small.trainer("supervised", 0)]})
    assert {cell.split for cell in result.cells} == {"cv", "test"}
    assert all(math.isfinite(cell.main.mean) for cell in result.cells)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [f"{name}-small"]  # apart from those of full runs


def test_shares_of_labels_are_the_papers_on_its_data_sets(files: Path, tmp_path: Path) -> None:
    rows = coles.figure2(True, "rosbank", "0", str(tmp_path / "runs"))
    paper = {row["arm"]: row["paper"] for row in rows if row["share"] == 1 and row["paper"] is not None}
    assert paper == {arm: curve[-1] for arm, curve in published.FIGURE2["rosbank"][1].items()}
    split = Study.of("rosbank", tmp_path, small=True).split
    counts = [round(share * len(train)) for train, _ in split.folds[:1] for share in (1, 0.5)]
    assert list(dict.fromkeys(row["labels"] for row in rows)) == pytest.approx(counts, abs=1)


def test_lengths_below_the_power_law_have_no_expected_count(files: Path, tmp_path: Path) -> None:
    path = files / "rosbank/train.csv"
    uniform = (np.arange(108) + 0.5) / 108
    lengths = np.where(uniform < 0.2, 3, np.minimum(9.5 * (1 - uniform) ** -0.5 + 0.5, EVENTS))
    within_length = np.concatenate([np.arange(EVENTS) < length for length in lengths])
    pl.read_csv(path).filter(pl.Series(within_length)).write_csv(path)
    rows = coles.figure3(False, "rosbank", "0", str(tmp_path))
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    expected = [row["expected"] for row in rows]
    assert expected[0] is None
    assert expected[-1] > 0


# what an encoder may see


def test_the_schema_is_fitted_to_the_entities_outside_the_test_set() -> None:
    events = pl.DataFrame({
        "id": [0, 0, 1, 1, 2, 2], "t": [0, 1, 0, 3, 0, 60], "shop": ["a", "b", "a", "c", "d", "a"],
        "paid": [1.0, None, 3.0, 8.0, 100.0, 200.0],
    })  # fmt: skip
    read = {"key": "id", "time": "t", "categorical": ["shop"], "numeric": ["paid"]}
    data = ev.read(events, **read, fitting=ev.Fitting(min_count=1))
    seen = ev.read(events.filter(pl.col("id") < 2), **read, fitting=ev.Fitting(min_count=1))
    ours = refitted(data, np.array([True, True, False]))
    assert ours.schema.numeric == seen.schema.numeric
    assert ours.schema.gap == seen.schema.gap
    decoded = [
        (None, None, *ours.schema.categorical[0].values)[code] for code in ours.sequences.values("shop").tolist()
    ]
    assert decoded == ["a", "b", "a", "c", None, "a"]  # only the third entity has been to d
    assert ours.sequences.values("shop")[4] == UNKNOWN
    assert data.sequences.values("shop")[4] != UNKNOWN  # the data that were given are unchanged


@pytest.mark.parametrize("name", ["order", "habits", "rates"])
def test_the_test_entities_do_not_change_the_schema_of_a_study(name: str, tmp_path: Path) -> None:
    study = Study.of(name, tmp_path, small=True)
    unseen = torch.from_numpy(study.split.test)
    assert len(unseen) == 30
    assert study.data.schema == refitted(study.data, study.split.seen).schema


# budgets


def test_supervised_training_may_see_as_many_events_as_pre_training_and_fine_tuning() -> None:
    for events in (1_000, 250, 62):  # shares of the labels
        tuned = budget({"passes": 10}, events, whole=1_000, before=0)
        supervised = budget({"passes": 10}, events, whole=1_000, before=5_000)
        assert tuned["epochs"] * events == pytest.approx(10_000, abs=events)
        assert supervised["epochs"] * events == pytest.approx(15_000, abs=events)
        assert supervised["patience"] == max(5, math.ceil(supervised["epochs"] / 10))
    assert budget({"epochs": 8}, 1_000, 1_000, 5_000) == {"validation": 0}


def test_labels_held_out_for_validation_do_not_count_as_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Exception):
        pass

    def stop(_: object, data: ev.Dataset, settings: object, bounds: dict[str, int], seed: int) -> None:
        raise Stopped(bounds["epochs"] * 0.85 * data.sequences.total)

    monkeypatch.setattr(study_module, "train_on_labels", stop)
    study = Study.of("rates", tmp_path, small=False)
    rows = study.split.folds[0][0]
    whole = int(study.data.sequences.lengths[torch.from_numpy(rows)].sum())
    for name, events in (("untrained, fine-tuned", 10 * whole), ("supervised", 10 * whole + study.events("coles"))):
        with pytest.raises(Stopped) as stopped:
            study.trainer(name, 0)(rows, study.split.labels(rows), rows)
        assert stopped.value.args[0] == pytest.approx(events, abs=whole)


def test_an_arm_with_the_settings_of_coles_is_not_trained_again(tmp_path: Path) -> None:
    study = Study.of("order", tmp_path, small=True)
    coles_itself, gru = study.raw("coles", 0), study.raw("gru", 0)
    assert np.array_equal(coles_itself, gru)
    assert study.steps("gru") == study.steps("coles")
    assert sorted(path.name for path in study.keep.iterdir()) == ["coles-0", "coles-0-raw.npy"]
    full = Study("order", study.config, study.source, tmp_path, small=False)
    names = ("dim=64", "dim=32", "lstm", "untrained", "aggregates")
    assert [full.trained_as(name) for name in names] == ["coles", *names[1:]]


def test_all_arms_take_the_same_number_of_steps_and_their_events_are_counted(tmp_path: Path) -> None:
    study = Study.of("order", tmp_path, small=True)
    for arm in ("coles", "disjoint_segments", "sop", "nsp", "rtd", "cpc"):
        study.raw(arm, 0)
    assert len({study.steps(arm) for arm in ("coles", "disjoint_segments", "sop", "nsp", "rtd", "cpc")}) == 1
    total = int(study.data.sequences.lengths[torch.from_numpy(study.trained_on())].sum())
    assert study.events("rtd") == study.events("disjoint_segments") == round(0.95 * total)
    views, _ = study.views("coles")
    assert study.events("coles") == round(0.95 * views.total)
    assert study.events("aggregates") is None


def test_networks_are_trained_before_they_are_scored(tmp_path: Path) -> None:
    study = Study.of("rates", tmp_path, small=True)
    study.train(["coles"], [0])
    study.tune(["supervised", "untrained, fine-tuned", "coles, fine-tuned"], [0], [1.0])
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "rates-small").glob("*.npy")}
    assert len(files) == 1 + 3 * 2  # the embedding, and three networks in two folds
    study.scores({name: [study.trainer(name, 0)] for name in ("supervised", "untrained, fine-tuned")})
    assert files == {file: file.stat().st_mtime_ns for file in (tmp_path / "rates-small").glob("*.npy")}


def test_whole_histories_among_the_views(tmp_path: Path) -> None:
    rows = {row["arm"]: row for row in coles.table1(True, "order", "0", str(tmp_path))}
    study = Study.of("order", tmp_path, small=True)
    views, source = study.views("coles")
    lengths = study.data.sequences.lengths[torch.from_numpy(study.trained_on())].tolist()
    whole = [length == lengths[row] for length, row in zip(views.lengths.tolist(), source.tolist(), strict=True)]
    assert rows["coles"]["whole histories"] == np.mean(whole)


# settings


@pytest.mark.parametrize("name", arms.names())
def test_every_arm_of_every_data_set_can_be_built(name: str) -> None:
    settings = arms.read(name)
    for arm in {*arms.ARMS, *settings.get("arms", {}), "dim=32"}:
        tables = arms.tables(settings, arm)
        with torch.device("meta"):  # sizes are known without numbers
            assert config.build_method(tables, schema_of(name)).encoder.dim == tables["encoder"]["dim"]
    assert set(settings["fine_tuning"].get("from", {}).values()) <= {*arms.ARMS, *settings.get("arms", {})}


def test_figure_5_changes_the_size_of_the_embedding_only() -> None:
    for name in published.PAPER:
        settings = arms.read(name)
        coles_tables = arms.tables(settings, "coles")
        for size in published.FIGURE5[name]:
            expected = {**coles_tables, "encoder": {**coles_tables["encoder"], "dim": size}}
            assert arms.tables(settings, f"dim={size}") == expected


@pytest.mark.parametrize("name", published.PAPER)
def test_embeddings_have_the_widths_of_the_papers_code(name: str) -> None:
    for arm, expected in zip(("coles", "cpc"), WIDTHS[name], strict=True):
        encoder = config.build_method(arms.tables(arms.read(name), arm), schema_of(name)).encoder
        assert [table.embedding_dim for table in encoder.events.embeddings] == expected, arm


def test_coles_paper_has_the_settings_of_table_5_and_of_the_study() -> None:
    tables = suggest(make.sequences([60] * 9), {"method": {"name": "coles_paper"}})
    fit, encoder = tables["fit"], tables["encoder"]
    assert (encoder["name"], encoder["dim"], encoder["read_out"]) == ("gru", 800, ["last"])
    assert (fit["epochs"], fit["batch_size"], fit["lr"], fit["beside"]) == (150, 64, 0.001, [])
    method = config.build_method(tables, schema_of("age_group"))
    assert isinstance(method, ev.methods.CoLES)
    assert method.views.views == ev.views.RandomSlices(count=5, shortest=25, longest=200)
    study = arms.tables(arms.read("age_group"), "coles")
    assert config.describe(method) == config.describe(config.build_method(study, schema_of("age_group")))
    assert {**study["fit"], "beside": []} == fit


def test_coles_paper_is_a_method_of_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = make.dataset([60] * 12)
    run = ev.fit(data, method="coles_paper", dim=8, epochs=1, batch_size=4)
    assert (run.config["method"]["views"]["views"]["longest"], run.config["fit"]["lr"], run.beside) == (200, 0.001, ())
    with pytest.raises(ev.DataError, match="at least 2 are needed: histories are too short"):
        ev.fit(make.dataset([25] * 12), method="coles_paper", epochs=1)


def test_losses_are_set_as_in_the_papers_code() -> None:
    built = {
        name: [
            config.build_method(arms.tables(arms.read(name), arm), schema_of(name)).objective
            for arm in ("binomial_deviance", "histogram", "margin", "triplet")
        ]
        for name in published.PAPER
    }
    for name, beta, nodes, triplet_margin, count in (
        ("age_group", 0.3, 25, 0.3, 5), ("rosbank", 0.4, 25, 0.3, 5),
        ("bowl2019", 0.4, 25, 0.3, 2), ("x5", 0.3, 51, 0.6, 9),
    ):  # fmt: skip
        negatives = HardNegatives(count)
        deviance, margin = BinomialDeviance(beta=beta, negatives=negatives), Margin(0.2, 0.4, negatives)
        assert built[name] == [deviance, Histogram(nodes), margin, Triplet(triplet_margin, HardNegatives(5))], name


def test_boosted_trees_are_set_as_in_the_papers_code() -> None:
    assert lightgbm_settings("age_group") == Boosting(1000, 0.02, 0.75, 12, 50, 50)
    assert lightgbm_settings("rosbank") == Boosting(500, 0.02, 0.5, 6, 31, 50)
    assert lightgbm_settings("bowl2019") == Boosting(1000, 0.01, 0.75, 12, 21, 50)
    assert lightgbm_settings("x5") == Boosting(1000, 0.05, 0.5, 6, 50, 50)
    with pytest.raises(ConfigError, match="no settings for data set 'churn'"):
        lightgbm_settings("churn")


def test_transformers_have_the_papers_sizes() -> None:
    for name, dim, heads, layers, width in (
        ("age_group", 128, 4, 4, 128), ("rosbank", 96, 8, 6, 96), ("bowl2019", 64, 4, 4, 64), ("x5", 16, 4, 4, 64),
    ):  # fmt: skip
        encoder = config.build_method(arms.tables(arms.read(name), "transformer_paper"), schema_of(name)).encoder
        assert isinstance(encoder, PaperTransformer)
        assert (encoder.dim, encoder.heads, encoder.layers, encoder.width) == (dim, heads, layers, width)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "churn"], "ConfigError: --dataset must be one of age_group, bowl2019, .*, got 'churn'"),
        (["--dataset", "rosbank"], "DataError: rosbank needs train.csv"),
    ],
)
def test_an_unknown_or_missing_data_set_is_refused(
    arguments: list[str], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["coles", "table8", *arguments])
    with pytest.raises(SystemExit, match=message):
        coles.main()


def test_seeds_are_whole_numbers() -> None:
    assert coles._seeds("0,1,2") == [0, 1, 2]
    with pytest.raises(ConfigError, match="--seeds must be whole numbers separated by commas, like 0,1,2, got '0;1'"):
        coles._seeds("0;1")
