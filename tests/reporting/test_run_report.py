"""`report` adds the sections of each argument, refuses what does not fit, and writes what the commands write."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventvec as ev
from commands import answer, customer_labels, invoke, purchases
from eventvec.answers import Answer, Chart
from eventvec.answers.charts import Series, bars
from eventvec.statistics import Estimate
from pages import HOSTILE, Reader, evaluation

SECTIONS = {
    "churn: AUROC": "results",
    "likes: AUROC": "results",
    "What drives a vector": "drivers",
    "Who is like whom": "map",
    "Training": "training",
    "The data": "data",
}
CUSTOMERS = [f"secret{i:02}" for i in range(60)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with events, labels, a trained run and its embeddings."""
    path = tmp_path_factory.mktemp("files")
    purchases(CUSTOMERS, 12).write_parquet(path / "events.parquet")
    customer_labels(CUSTOMERS).write_parquet(path / "people.parquet")
    data = ev.read(path / "events.parquet", key="customer", time="when")
    run = ev.fit(data, method={"encoder": {"dim": 8}}, epochs=1, out=path / "run")
    ev.write(path / "z.parquet", run.embed(data))
    return path


def sections(page: str) -> list[str]:
    """Return the sections of a page in their order."""
    texts = [text.strip() for text in Reader(page).texts]
    return [SECTIONS[text] for text in texts if text in SECTIONS]


def influence() -> Answer:
    """Return what `influence` finds."""
    rows = [{"left_out": "shop", "kind": "field", "change": Estimate(-0.21, -0.25, -0.17, signed=True)}]
    changes = Series([row["change"] for row in rows])
    chart = Chart("", "", lambda axes: bars(axes, ["shop"], changes, across="change"))
    return Answer(("shop drives it.",), {"rows": rows}, figures=(chart,))


def test_each_argument_adds_its_sections(files: Path) -> None:
    run, z = ev.load(files / "run"), ev.read_embeddings(files / "z.parquet")
    assert sections(ev.report(run).html) == ["training"]
    assert sections(ev.report(evaluations=evaluation()).html) == ["results"]
    driven = ev.report(run, drivers=influence()).html
    assert sections(driven) == ["drivers", "training"]
    assert "−.210 ± .040" in driven
    with pytest.raises(ev.ConfigError, match="drivers must be the result of influence"):
        ev.report(run, drivers=evaluation())
    mapped = ev.report(embeddings=z).html
    assert sections(mapped) == ["map"]
    assert Reader(mapped).data["neighbours"]["histories"] is None
    whole = ev.report(run, files / "events.parquet", labels=files / "people.parquet")
    assert sections(whole.html) == ["map", "training", "data"]
    read = Reader(whole.html)
    assert [column["name"] for column in read.data["map"]["columns"]][:2] == ["likes", "shop"]
    assert read.data["neighbours"]["histories"]["columns"][0]["name"] == "bought"


def test_the_decision_comes_first() -> None:
    one = ev.report(evaluations=evaluation())
    assert one.verdict == ("Use it for churn: ahead.", "A second line about churn.")
    assert one.title == "What predicts churn"
    assert one.frame()["label"].to_list() == ["churn"] * 8
    page = ev.report(evaluations=[evaluation(), evaluation(label="age"), evaluation(label="sex")])
    assert page.verdict == ("Use it for churn: ahead.", "Use it for age: ahead.", "Use it for sex: ahead.")
    texts = Reader(page.html).texts
    assert texts.index(page.verdict[2]) < texts.index("churn: AUROC") < texts.index("A second line about churn.")
    for text, times in ((page.verdict[0], 1), ("A second line about age.", 1), ("A note.", 1), ("About sex.", 1)):
        assert texts.count(text) == times, text
    many = ev.report(evaluations=[evaluation(label=str(i)) for i in range(7)])
    assert (len(many.verdict), many.verdict[-1]) == (5, "3 more labels are below.")


def test_a_page_without_labels_says_that_nothing_is_known(files: Path) -> None:
    assert ev.report(ev.load(files / "run")).verdict[0].endswith("LABELS and --label).")


def test_hostile_names_are_text(files: Path) -> None:
    events = pl.read_parquet(files / "events.parquet")
    data = ev.read(events.with_columns(pl.lit(HOSTILE).alias(HOSTILE)), key="customer", time="when")
    z = ev.embed(ev.load(files / "run").encoder, data)
    labels = pl.DataFrame({"customer": CUSTOMERS, HOSTILE: [HOSTILE, "b"] * 30})
    text = ev.report(None, data, embeddings=z, labels=labels, evaluations=evaluation(label=HOSTILE)).html
    assert HOSTILE not in text
    read = Reader(text)
    assert "img" not in {tag for tag, _, _ in read.attributes}
    assert read.data["map"]["columns"][0]["names"] == [HOSTILE, "b"]


def test_a_named_label_is_evaluated(files: Path) -> None:
    run, z = ev.load(files / "run"), ev.read_embeddings(files / "z.parquet")
    steps: list[tuple[int, int, str]] = []
    people, data = files / "people.parquet", run.read(files / "events.parquet")
    options: dict[str, Any] = {"models": ["knn"], "folds": 3, "fractions": (1.0, 0.5)}
    page = ev.report(
        run, data, embeddings=z, labels=people, label="likes", progress=lambda *step: steps.append(step), **options
    )
    expected = ev.evaluate(z, data, people, "likes", **options)
    assert [e.to_dict() for e in page.basis] == [expected.to_dict()]
    assert page.verdict == expected.verdict
    assert "50 % of the labels" in Reader(page.html).texts
    assert steps == [(0, 2, "evaluating likes"), (1, 2, "placing the entities")]


def test_the_page_of_cut_histories_shows_the_events_that_were_embedded(files: Path) -> None:
    run = ev.load(files / "run")
    cut = run.embed(files / "events.parquet", until="2024-01-08")
    page = Reader(ev.report(None, files / "events.parquet", embeddings=cut).html).data
    assert page["neighbours"]["histories"]["longest"] == 200
    lengths = next(column for column in page["map"]["columns"] if column["name"] == "number of events")
    assert lengths["ends"][1] <= 5


def test_few_embeddings_have_no_map(files: Path) -> None:
    z = ev.read_embeddings(files / "z.parquet")
    assert sections(ev.report(embeddings=z[:3]).html) == []
    assert sections(ev.report(embeddings=z[:4]).html) == ["map"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "there is nothing to report; give a model"),
        ({"model": "folder"}, r"the model must be a Model, got str; load it first: ev.load\(path\)"),
        ({"embeddings": "z.parquet"}, "embeddings must be Embeddings, got str"),
        ({"evaluations": ["x"]}, "evaluations must be results of evaluate, got 'x'"),
        ({"evaluations": influence()}, "evaluations must be results of evaluate"),
        ({"data": "events.parquet", "evaluations": evaluation()}, "needs the model or the embeddings"),
        ({"labels": "l.parquet", "evaluations": evaluation()}, "labels need the embeddings"),
        ({"label": "churn", "evaluations": evaluation()}, r"give labels= \(LABELS\)"),
        ({"folds": 3, "evaluations": evaluation()}, "folds is for the evaluation of a label; name one"),
        ({"fold": 3, "evaluations": evaluation()}, "fold"),
        ({"map_seed": -1, "evaluations": evaluation()}, "map_seed must be in"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ev.ConfigError, match=message):
        ev.report(**arguments)


def test_events_of_others_are_refused_without_their_keys(files: Path) -> None:
    z = ev.read_embeddings(files / "z.parquet")
    events = pl.read_parquet(files / "events.parquet").filter(pl.col("customer") != "secret07")
    with pytest.raises(ev.DataError, match="1 of 60 embedded entities have no events") as refused:
        ev.report(None, events, embeddings=z)
    assert "secret" not in str(refused.value)


def without_ids(page: str) -> str:
    return re.sub(r"[0-9a-f]{12}", "ID", page)


def test_the_command_writes_the_page_of_the_call(files: Path) -> None:
    output = files / "new" / "page.html"
    inputs = (files / "events.parquet", files / "people.parquet", "--label", "likes")
    printed = answer("report", files / "run", *inputs, "--models", "knn", "-o", output, "--device", "cpu")
    page = ev.report(
        ev.load(files / "run"), files / "events.parquet", labels=files / "people.parquet", label="likes", models=["knn"]
    )
    assert output.read_text() == page.html
    assert printed == {"output": str(output), **json.loads(json.dumps(page.to_dict()))}
    assert printed["results"][0]["label"] == "likes"
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    shown = invoke("report", files / "run", "-o", output)  # a page that eventvec wrote is replaced
    assert shown.exit_code == 0, shown.output
    assert " ".join(shown.stdout.split()).startswith("Nothing here says what the vectors are worth")
    assert sections(output.read_text()) == ["training"]


def test_evaluate_writes_a_page(files: Path) -> None:
    output = files / "evaluation.html"
    inputs = (files / "z.parquet", files / "people.parquet", "--label", "likes", "--models", "knn")
    printed = answer("evaluate", *inputs, "--events", files / "events.parquet", "-o", output)
    page = output.read_text()
    assert sections(page) == ["results", "map", "data"]
    assert printed["verdict"] in " ".join(Reader(page).texts)
    answer("evaluate", *inputs, "-o", output)
    assert sections(output.read_text()) == ["results", "map"]


def test_the_commands_refuse_in_one_sentence(files: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.html").write_text("<p>mine</p>")
    run, events, labels = files / "run", files / "events.parquet", files / "people.parquet"
    page = tmp_path / "page.html"
    for arguments, code, sentence in (
        (("report", tmp_path / "gone", "-o", page), 1, "gone"),
        (("report", run, tmp_path / "gone.parquet", "-o", page), 1, "gone.parquet"),
        (("report", run, "--embeddings", tmp_path / "gone.parquet", "-o", page), 1, "does not exist"),
        (("report", run, "-o", tmp_path / "mine.html"), 2, "was not written by eventvec"),
        (("report", run, "-o", run / "page.html"), 2, "lies in the folder"),
        (("report", run, events, "--label", "likes", "-o", page), 2, "give labels= (LABELS)"),
        (
            ("report", run, events, labels, "--label", "lkes", "-o", page),
            1,
            "did you mean 'likes'",
        ),
        (("report", run, events, "--folds", 3, "-o", page), 2, "for the evaluation of a label"),
        (("evaluate", files / "z.parquet", labels, "--label", "likes", "-o", labels), 2, "is an input"),
    ):
        result = invoke(*arguments)
        assert result.exit_code == code, result.output
        assert sentence in " ".join(result.output.split())
        assert "Traceback" not in result.output
        assert "secret" not in result.output
        assert not page.exists()
    assert (tmp_path / "mine.html").read_text() == "<p>mine</p>"
