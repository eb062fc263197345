"""Search by words: sentences about histories, matched by loops here, and an index of them that stays true."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import backbones
import eventvec as ev
from commands import answer, invoke, purchases
from eventvec.describing.matching import UNRELATED, Sentences, parts
from eventvec.describing.templates import TEMPLATES
from eventvec.encoders import SentenceEncoder
from eventvec.searching.sentence_index import MODEL

CUSTOMERS = [f"c{number:02}" for number in range(30)]
HISTORIES = [
    ["There is a long silence midway.", "Most events are at night."],
    ["Most events are at night.", "The first event has the shop bakery.", "There are 3 to 5 events."],
    ["Many events come in a burst early on."],
]
QUERY = "A bakery at the start. Mostly at night"


@pytest.fixture(scope="module")
def model() -> SentenceEncoder:
    return SentenceEncoder(MODEL)


@pytest.fixture(scope="module")
def events() -> pl.DataFrame:
    return purchases(CUSTOMERS, 12)


@pytest.fixture(scope="module")
def index(events: pl.DataFrame) -> ev.SentenceIndex:
    return ev.SentenceIndex.of(ev.read(events, key="customer", time="when"), backbone=None)


def table(histories: list[list[str]]) -> pl.DataFrame:
    return pl.DataFrame({"row": range(len(histories)), "sentence": histories}).explode("sentence")


def bm25(query: str, sentence: str, every: list[str]) -> float:
    """Return BM25 of a sentence among all distinct ones, by its formula."""
    words = {text: Counter(re.findall(r"\w+", text.lower())) for text in every}
    mean = sum(sum(each.values()) for each in words.values()) / len(every)
    score = 0.0
    for word in set(re.findall(r"\w+", query.lower())):
        having = sum(word in each for each in words.values())
        f, length = words[sentence][word], sum(words[sentence].values())
        rarity = math.log(1 + (len(every) - having + 0.5) / (having + 0.5))
        score += rarity * f * 2.5 / (f + 1.5 * (0.25 + 0.75 * length / mean))
    return score


@pytest.mark.parametrize("by", ["BM25", "cosine"])
def test_each_sentence_of_a_query_counts_by_the_sentence_of_a_history_that_fits_it_best(
    by: str, model: SentenceEncoder
) -> None:
    every = sorted({sentence for history in HISTORIES for sentence in history})
    z = dict(zip([*every, *parts(QUERY)], model.encode([*every, *parts(QUERY)]).double().numpy(), strict=True))

    def fit(query: str, sentence: str) -> float:
        words = bm25(query, sentence, every)
        if by == "BM25":
            return words
        a, b = z[query], z[sentence]
        share = words / max(bm25(query, each, every) for each in every) if words else 0
        return float(a @ b / math.sqrt((a @ a) * (b @ b)) + 0.2 * share)

    sentences = Sentences.of(table(HISTORIES), model if by == "cosine" else None)
    expected = [np.mean([max(fit(part, each) for each in history) for part in parts(QUERY)]) for history in HISTORIES]
    assert sentences.scores(QUERY) == pytest.approx(expected, abs=1e-3 if by == "cosine" else 1e-5)
    matched = sentences.matched(sentences.scorer(parts(QUERY)), np.array([1, 0]))
    assert matched[0] == ["The first event has the shop bakery.", "Most events are at night."]
    assert matched[1][-1] == "Most events are at night."
    assert sentences.table().sort("row", "sentence").rows() == table(HISTORIES).sort("row", "sentence").rows()


def test_a_query_is_parted_into_sentences() -> None:
    assert parts("Long silence, then many purchases; few at night!") == [
        "Long silence", "many purchases;", "few at night!",
    ]  # fmt: skip
    assert parts("many cheap purchases at night, and a burst of travel") == [
        "many cheap purchases at night", "and a burst of travel",
    ]  # fmt: skip
    assert parts("In short, tea.\n\nNo coffee") == ["In short, tea.", "No coffee"]
    with pytest.raises(ev.ConfigError, match="has no words"):
        parts(" ?!\n")


def test_words_about_other_things_fit_nothing_clearly(model: SentenceEncoder) -> None:
    sentences = Sentences.of(table(HISTORIES), model)
    cosines = [max(sentences.scorer([text])[0]) for text in UNRELATED]
    assert sentences.scorer.clear == pytest.approx(np.quantile(cosines, 0.95), abs=1e-5)
    index = index_of(sentences)
    assert "Nothing fits clearly" in ev.search(index, text="a recipe for apple pie").verdict[0]
    assert "Nothing" not in ev.search(index, text="a long pause in the middle").verdict[0]
    by_words = index_of(Sentences.of(table(HISTORIES), None))
    assert ev.search(by_words, text="apple pie").verdict[0].startswith("Nothing fits: no sentence has any of these")
    assert "BM25" in ev.search(by_words, text="silence").notes[0]


def test_codes_are_numbered_where_no_word_may_be_written(events: pl.DataFrame, tmp_path: Path) -> None:
    data = ev.read(events, key="customer", time="when")
    index = ev.SentenceIndex.of(data, names=None, backbone=None)
    texts = " ".join(index.sentences.texts)
    assert "the bought number 1" in texts
    assert not {"tea", "coffee"} & set(re.findall(r"\w+", texts))
    (bought,) = data.schema.categorical
    named, numbered = (ev.describe(data, names=names, most=1000) for names in ({}, None))
    order = {value: f"number {place}" for place, value in enumerate(bought.values, 1)}
    said = [re.sub(r"\b(tea|coffee)\b", lambda found: order[found[0]], text) for text in named["sentence"]]
    assert sorted(zip(named["customer"], said, strict=True)) == sorted(numbered.select("customer", "sentence").rows())
    index.save(tmp_path / "cards.sentences")
    read = ev.read_index(tmp_path / "cards.sentences")
    assert isinstance(read, ev.SentenceIndex)
    assert read.names is None


def test_codes_that_are_numbers_are_told() -> None:
    events = purchases(CUSTOMERS, 4).with_columns(bought=pl.col("bought").replace({"tea": "5411", "coffee": "5812"}))
    data = ev.read(events, key="customer", time="when", categorical=["bought"])
    notes = ev.SentenceIndex.of(data, backbone=None).notes
    assert "the codes of bought are numbers" in notes[-1]
    named = ev.SentenceIndex.of(data, names={"5411": "grocery"}, backbone=None)
    assert not any("are numbers" in note for note in named.notes)


def index_of(sentences: Sentences) -> ev.SentenceIndex:
    """Return an index of sentences about three customers."""
    of = ev.SentenceIndex.of(ev.read(purchases(CUSTOMERS[:3], 3), key="customer", time="when"), backbone=None)
    return replace(of, sentences=sentences)


def test_hits_are_the_best_ones_with_the_sentences_that_fit(events: pl.DataFrame, index: ev.SentenceIndex) -> None:
    described = ev.describe(ev.read(events, key="customer", time="when"), most=10_000)
    text = "Most events have the bought tea."
    mostly_tea = set(described.filter(pl.col("sentence") == text)["customer"])
    assert 5 < len(mostly_tea) < 25
    hits = ev.search(index, text=text, count=len(mostly_tea)).frame()
    assert set(hits["customer"]) == mostly_tea
    assert set(hits["sentences"]) == {text}
    assert hits.columns == ["customer", "bm25", "sentences"]
    order = np.argsort(-index.scores(text), kind="stable")
    assert hits["customer"].to_list() == [CUSTOMERS[row] for row in order[: len(mostly_tea)]]
    few = ev.search(index, text=text, among=pl.DataFrame({"customer": ["c01", "c02", "c99"]}), events=events).frame()
    assert set(few["customer"]) == {"c01", "c02"}
    assert few["history"].str.starts_with("12 events").all()
    same = ev.search(ev.read(events, key="customer", time="when"), text=text, count=5)
    assert same.frame().columns == ["customer", "similarity", "sentences"]  # with the language model, which is there


def test_refreshed_entities_have_the_sentences_of_their_new_histories(
    events: pl.DataFrame, index: ev.SentenceIndex
) -> None:
    again = events.with_columns(customer=pl.when(pl.col("customer") == "c01").then(pl.lit("new")).otherwise("customer"))
    changed = again.filter(pl.col("customer").is_in(["new", "c03"])).with_columns(bought=pl.lit("tea"))
    stale = index.update(_embeddings(["c03", "c04", "new"]))
    assert [CUSTOMERS[row] for row in np.flatnonzero(stale.stale)] == ["c03", "c04"]
    hits = ev.search(stale, text="coffee", count=30)
    assert {row["customer"] for row in hits.rows if row["stale"]} == {"c03", "c04"}
    assert "2 of them are stale" in hits.verdict[-1]
    fresh = stale.refresh(changed)
    assert fresh.keys.to_pylist() == [*CUSTOMERS, "new"]
    assert [fresh.keys[int(row)].as_py() for row in np.flatnonzero(fresh.stale)] == ["c04"]
    before, after = sentences_by_key(index), sentences_by_key(fresh)
    assert {key for key in before if before[key] != after[key]} == {"c03"}
    always = "All events have the bought tea."
    assert always in after["c03"] & after["new"]
    assert always not in before["c03"]
    forgotten = fresh.forget("new").forget("c03")
    assert sentences_by_key(forgotten) == {key: each for key, each in before.items() if key != "c03"}
    texts = {sentence for sentences in sentences_by_key(forgotten).values() for sentence in sentences}
    assert set(forgotten.sentences.texts) == texts  # nothing that was true of the forgotten ones alone
    with pytest.raises(ev.ConfigError, match="templates are not those of the index"):
        index.refresh(changed, templates=TEMPLATES[:1])
    with pytest.raises(ev.ConfigError, match="another schema"):
        index.refresh(ev.read(changed, key="customer", time="when", numeric=[]))
    with pytest.raises(ev.DataError, match="not among the 30 entities"):
        index.forget("nobody")


def test_refreshed_entities_may_have_times_of_a_coarser_unit(events: pl.DataFrame) -> None:
    hours = events.with_columns(pl.col("when").dt.truncate("1h"))
    seconds = pl.when(pl.col("customer") == "c01").then("when").otherwise(pl.col("when") + pl.duration(seconds=1))
    index = ev.SentenceIndex.of(ev.read(hours.with_columns(seconds), key="customer", time="when"), backbone=None)
    one = ev.read(hours.filter(customer="c01"), schema=index.schema)
    assert (index.schema.time_unit, one.schema.time_unit) == ("second", "hour")
    assert len(index.refresh(one)) == len(CUSTOMERS)


def test_refreshed_entities_are_compared_with_the_population_of_the_index(
    events: pl.DataFrame, index: ev.SentenceIndex
) -> None:
    rich = events.filter(customer="c05").with_columns(amount=pl.col("amount") + 100)
    assert any("higher than in nine of ten" in each for each in sentences_by_key(index.refresh(rich))["c05"])
    assert not any("higher than in nine of ten" in each for each in sentences_by_key(index)["c05"])


def sentences_by_key(index: ev.SentenceIndex) -> dict[str, set[str]]:
    sentences: dict[str, set[str]] = {}
    for row, sentence in index.sentences.table().iter_rows():
        sentences.setdefault(index.keys[row].as_py(), set()).add(sentence)
    return sentences


def _embeddings(keys: list[str]) -> ev.Embeddings:
    data = ev.read(purchases(keys, 2), key="customer", time="when")
    return ev.Embeddings.of(data, np.ones((len(keys), 2)))


@pytest.mark.parametrize("by", ["BM25", "cosine"])
def test_a_file_holds_the_index_and_new_sentences_alone_are_embedded(
    by: str, tmp_path: Path, events: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ev.read(events, key="customer", time="when")
    made = ev.SentenceIndex.of(data[:10], names={"tea": "green tea"}, backbone=None if by == "BM25" else MODEL)
    made.update(_embeddings(["c02"])).save(tmp_path / "cards.sentences")
    read = ev.read_index(tmp_path / "cards.sentences")
    assert isinstance(read, ev.SentenceIndex)
    assert repr(read) == repr(made)
    assert read.stale.tolist() == [row == 2 for row in range(10)]
    assert read.names == {"tea": "green tea"}
    assert np.array_equal(read.scores("green tea at night"), made.scores("green tea at night"))
    assert sentences_by_key(read) == sentences_by_key(made)
    embedded: list[str] = []
    encode = SentenceEncoder.encode
    monkeypatch.setattr(SentenceEncoder, "encode", lambda self, texts: (embedded.extend(texts), encode(self, texts))[1])
    coffee = events.filter(customer="c02").with_columns(bought=pl.lit("coffee"))
    fresh = read.refresh(coffee)
    new = set(fresh.sentences.texts) - set(made.sentences.texts)
    assert set(embedded) - set(UNRELATED) == (new if by == "cosine" else set())
    content = bytearray((tmp_path / "cards.sentences").read_bytes())
    for place in [len(content) // 2, len(content) - 1]:
        damaged = content.copy()
        damaged[place] ^= 1
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(ev.CheckpointError, match="damaged"):
            ev.read_index(tmp_path / "damaged")
    if by == "cosine":
        monkeypatch.setattr(made.sentences.scorer.encoder, "origin", "other")  # type: ignore[attr-defined]
        made.save(tmp_path / "cards.sentences")
        with pytest.raises(ev.CheckpointError, match="other weights"):
            ev.read_index(tmp_path / "cards.sentences")


def test_bad_input(events: pl.DataFrame, index: ev.SentenceIndex) -> None:
    data = ev.read(events, key="customer", time="when")
    bad: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ev.ConfigError, "key= searches vectors", {"key": "c01"}),
        (ev.ConfigError, "no words", {"text": "…"}),
        (ev.ConfigError, "count must be at least 1", {"text": "tea", "count": 0}),
        (ev.DataError, "none of the 1 keys", {"text": "tea", "among": pl.DataFrame({"customer": ["x"]})}),
    ]
    for kind, message, options in bad:
        with pytest.raises(kind, match=message):
            ev.search(index, **options)
    with pytest.raises(ev.ConfigError, match="backbone 'nothing' is not a folder"):
        ev.SentenceIndex.of(data, backbone="nothing")
    with pytest.raises(ev.DataError, match="no history has an event"):
        ev.SentenceIndex.of(data[:0], backbone=None)
    with pytest.raises(ev.ConfigError, match="need their events"):
        ev.search(_embeddings(["c01"]), text="tea")
    with pytest.raises(ev.DataError, match="has no sentence"):
        Sentences.of(pl.DataFrame({"row": [0, 2], "sentence": ["a", "b"]}), None)
    assert len(TEMPLATES) == len(index.templates)


def test_the_command_line(tmp_path: Path, events: pl.DataFrame) -> None:
    path, index = tmp_path / "events.parquet", tmp_path / "cards.sentences"
    events.write_parquet(path)
    pl.DataFrame({"code": ["tea", "bought"], "name": ["green tea", "drink"]}).write_csv(tmp_path / "names.csv")
    read = ("describe", path, "--key", "customer", "--time", "when", "--names", tmp_path / "names.csv")
    assert "the drink green tea" in invoke(*read).output
    unnamed = invoke(*read[:-2], "--numbered").output
    assert "the bought number 1" in unnamed
    assert not re.search(r"\b(tea|coffee)\b", unnamed)
    made = answer(*read, "--save", index, "-o", tmp_path / "sentences.parquet")
    written = pl.read_parquet(tmp_path / "sentences.parquet")
    assert made["entities"] == 30
    assert made["sentences"] == written.height
    data = ev.read(path, key="customer", time="when")
    assert written.equals(ev.describe(data, names={"tea": "green tea", "bought": "drink"}))
    found = answer("search", index, "--text", "mostly green tea", "--count", 4)
    assert len(found["hits"]) == 4
    assert all("green tea" in hit["sentences"] for hit in found["hits"])
    answer(*read, "--save", index, "--backbone", backbones.folder("bert"))  # a small model, which each command loads

    run = ev.fit(data, method="coles", epochs=1, beside=[], out=tmp_path / "run")
    ev.write(tmp_path / "z.parquet", run.embed(data))
    by_events = answer("search", tmp_path / "z.parquet", "--text", "mostly tea", "--events", path, "--count", 2)
    assert [*by_events["hits"][0]] == ["customer", "similarity", "sentences", "history"]
    vectors = tmp_path / "cards.index"
    answer("search", tmp_path / "z.parquet", "--save", vectors)
    fresh = events.filter(pl.col("customer") == "c07").with_columns(pl.col("when") + pl.duration(days=90))
    fresh.write_parquet(tmp_path / "fresh.parquet")
    update = ("update", tmp_path / "run", "--state", tmp_path / "s.db", "--index", vectors, "--index", index)
    answer(*update, tmp_path / "fresh.parquet", "-o", tmp_path / "fresh_z.parquet")
    hits = answer("search", index, "--text", "tea", "--count", 30)["hits"]
    assert [hit["customer"] for hit in hits if hit["stale"]] == ["c07"]
    pl.concat([events, fresh]).filter(customer="c07").write_parquet(tmp_path / "whole.parquet")
    assert answer("describe", tmp_path / "whole.parquet", "--refresh", index)["stale"] == 0
    assert "stale" not in answer("search", index, "--text", "tea")["hits"][0]
    answer(*update, "--forget", "c07")
    assert not any(ev.read_index(each).has("c07") for each in (vectors, index))
    for arguments, message in [
        (("describe", path, "--refresh", vectors), "index of vectors"),
        (("describe", path, "--refresh", index, "--key", "customer"), "--refresh takes columns and words"),
        (("describe", path, "--key", "customer", "--time", "when", "--names", path), "needs code and name"),
        ((*read, "--numbered"), "give one of them"),
        ((*read, "--backbone", MODEL), "give --save FILE"),
        (("search", index, "--text", "tea", "--save", tmp_path / "other"), "is an index of sentences"),
        (("search", tmp_path / "z.parquet", "--text", "tea"), "need their events"),
    ]:
        result = invoke(*arguments)
        assert result.exit_code in (1, 2)
        assert message in " ".join(result.output.split())
