"""Changelogs: the texts reveal neither date nor urgency, and each text belongs to its event."""

from __future__ import annotations

import datetime
from pathlib import Path

import polars as pl
import pytest

from disk import parquet
from eventvec.dataset import strings
from experiments import data as datasets


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("  * New upstream version 2.1.3-4+deb12u2.", "* New upstream version 0."),
        ("  * Fix CVE-2023-1234, CVE-2023-99999 (Closes: #728664, #1)", "* Fix 0 (Closes: 0)"),
        ("* Snapshot of Mon, 21 Oct 2017 10:00:01 +0200.", "* Snapshot of 0."),
        ("* Built in October 2017, in May.", "* Built in 0, in May."),
        ("* See https://bugs.debian.org/1 or a.b@c.org.", "* See 0 or 0"),
        ("[ Colin Watson ]\n* Backport to Wheezy and etch.\n", "* Backport to and ."),
        ("* A bug.\n* Set urgency to high, it is Urgent\n* B", "* A bug. * B"),
        ("* Edit [this] list; fetch no more", "* Edit [this] list; fetch no more"),
        ("  [ A. B. ]", ""),
        ("* Erstes Ö für libé", "* Erstes Ö für libé"),
    ],
)
def test_plain_words_reveal_neither_date_nor_urgency(text: str, plain: str) -> None:
    assert pl.DataFrame({"text": [text]}).select(datasets.plain_words(pl.col("text"))).item() == plain


def test_each_text_belongs_to_its_event(folder: Path) -> None:
    days = [datetime.datetime(2020, 1, day) for day in (3, 1, 2, 2, 9)]
    columns = {
        "package": ["b", "b", "a", "a", "ä"],
        "date": days,
        "urgency": ["high", "low", "medium", "critical", "low"],
    }
    parquet(folder / "debian_changelogs/entries.parquet", {**columns, "text": ["second", "first", "x", "y 1.0", "é"]})
    data, labels = datasets.debian_changelogs()
    text = data.sequences.columns["text"]
    assert data.keys.to_pylist() == ["a", "b", "ä"]
    assert [strings(text[data[[row]].sequences.flat()]) for row in range(3)] == [
        ["x", "y 0"],
        ["first", "second"],
        ["é"],
    ]
    assert labels.select("entry", "package", "urgent").rows() == [
        *((0, "a", False), (1, "a", True), (2, "b", False), (3, "b", True), (4, "ä", False)),
    ]


@pytest.mark.data
def test_changelogs_counts() -> None:
    data, labels = datasets.debian_changelogs()
    events, _ = datasets.debian_changelogs_frames()
    assert (len(data), data.sequences.total, labels["urgent"].sum()) == (430, 11_334, 454)
    assert strings(data.sequences.columns["text"]) == events["text"].to_list()
    assert data.sequences.values("time").tolist() == events["date"].cast(pl.Int64).to_list()
    assert not events["text"].str.contains(r"[1-9]|(?i)urgen").any()
