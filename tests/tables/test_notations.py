"""Numbers in text with a decimal comma or separated thousands: told in a note, and read by `decimal=`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import eventvec as ev
from eventvec.tables.notations import decimal_marks, with_points

COLUMNS = {"key": "card", "time": "day"}
AMOUNTS = np.random.default_rng(0).lognormal(5, 2, 400).round(2)


def table(amounts: list[str]) -> pl.DataFrame:
    """Return one event for each amount, of forty cards."""
    n = len(amounts)
    return pl.DataFrame({"card": np.arange(n) % 40, "day": np.arange(n), "amount": amounts})


COMMAS = table([f"{amount:_.2f}".replace(".", ",").replace("_", ".") for amount in AMOUNTS])
POINTS = table([f"{amount:,.2f}" for amount in AMOUNTS])
SPACES = table([f"{amount:_.2f}".replace(".", ",").replace("_", "\u202f") for amount in AMOUNTS])


@pytest.mark.parametrize(("events", "mark"), [(COMMAS, ","), (POINTS, "."), (SPACES, ",")])
def test_a_note_names_the_option_and_the_option_reads_the_numbers(events: pl.DataFrame, mark: str) -> None:
    (note,) = (note for note in ev.read(events, **COLUMNS).notes if "notation" in note)
    assert note == (
        f"texts in column 'amount' are numbers in another notation; to read them: decimal='{mark}' (--decimal '{mark}')"
    )
    expected = ev.read(events.with_columns(amount=AMOUNTS), **COLUMNS)
    for options in ({}, {"numeric": ["amount"], "categorical": []}):
        data = ev.read(events, **COLUMNS, **options, decimal=mark)
        assert data.notes == ()
        assert data.schema == expected.schema
        assert data.sequences.values("amount").equal(expected.sequences.values("amount"))
    later = ev.read(events[:3], schema=expected.schema, decimal=mark)
    assert later.sequences.values("amount").tolist() == np.float32(AMOUNTS[:3]).tolist()


def test_what_could_be_read_in_two_ways_names_both() -> None:
    (note,) = (note for note in ev.read(table(["1,200", "3,500"] * 50), **COLUMNS).notes if "notation" in note)
    assert note.endswith("decimal=',' (--decimal ',') or decimal='.' (--decimal '.')")


def test_codes_and_listed_categories_stay_text() -> None:
    for texts in (["00501", "10115"], ["a,b", "1,5"], ["1.2.3", "2.0.1"], ["12.5", "3"], ["1,2,3", "1,5"]):
        assert decimal_marks(pa.array(texts)) == []
        assert not [note for note in ev.read(table(texts * 50), **COLUMNS).notes if "notation" in note]
    sizes = ev.read(table(["1,5", "2,0"] * 50), **COLUMNS, categorical=["amount"], numeric=[], decimal=",")
    assert set(sizes.schema.categorical[0].values) == {"1,5", "2,0"}


def test_texts_that_are_no_numbers_are_refused_and_missing_ones_are_missing() -> None:
    column = pa.chunked_array([["+1.200,5", "-3", None, " 7,25 ", "none"], ["1.200.000"]])
    assert with_points(column, ",").to_pylist() == ["+1200.5", "-3", None, "7.25", "none", "1200000"]
    with pytest.raises(ev.DataError, match=r"has 1 text .*; decimal= .* reads a decimal comma"):
        ev.read(table(["1,5", "2,0", "none"]), **COLUMNS, numeric=["amount"], decimal=",")
    with pytest.raises(ev.ConfigError, match="decimal"):
        ev.read(COMMAS, **COLUMNS, decimal=";")


def test_a_file_in_parts_and_an_estimator_read_it_too(tmp_path: Path) -> None:
    COMMAS.write_csv(tmp_path / "events.csv")
    expected = ev.read(COMMAS.with_columns(amount=AMOUNTS), **COLUMNS)
    COMMAS.write_parquet(tmp_path / "events.parquet")
    stored = ev.read(tmp_path / "events.parquet", **COLUMNS, decimal=",", store=tmp_path / "store")
    assert ev.read(tmp_path / "events.csv", **COLUMNS, decimal=",").schema == stored.schema == expected.schema
    vectorizer = ev.EventVectorizer(**COLUMNS, reading={"decimal": ","}, epochs=1, progress=False)
    assert vectorizer.fit(COMMAS).transform(COMMAS[:200]).shape[0] == 40
