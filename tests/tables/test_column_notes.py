"""Notes about columns that may mislead: each is told of the column that has it, and of no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import eventvec as ev
from eventvec.schema import Categorical
from eventvec.tables.column_notes import joined_by
from eventvec.tables.mapped import INDEX

N = 400


def frame(**columns: Any) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    plain = {"card": rng.integers(0, 20, N), "day": np.arange(N), "shop": rng.choice(["a", "b", "c"], N)}
    return pl.DataFrame({**plain, "paid": rng.exponential(1, N), **columns})


def notes(table: pl.DataFrame, categorical: list[str], numeric: list[str], **options: Any) -> list[str]:
    data = ev.read(table, key="card", time="day", categorical=categorical, numeric=numeric, **options)
    return list(data.notes)


def test_ordinary_columns_have_no_note() -> None:
    other = np.random.default_rng(1).choice(["New York", "New Jersey", "Los Angeles"], N)
    assert notes(frame(city=other), ["shop", "city"], ["paid"]) == []


def test_a_column_of_other_names_for_the_same_codes_is_told() -> None:
    shop = frame()["shop"]
    names = shop.replace_strict({"a": "Zoo", "b": "Mall", "c": "Kiosk"})
    assert notes(frame(shop_name=names), ["shop", "shop_name"], ["paid"]) == [
        "column 'shop_name' repeats 'shop' in every event; leave one of them out of categorical= (--categorical)"
    ]
    names[N // 3] = "Mall" if names[N // 3] != "Mall" else "Zoo"
    assert notes(frame(shop_name=names), ["shop", "shop_name"], ["paid"]) == []
    merged = shop.replace_strict({"a": "Zoo", "b": "Mall", "c": "Mall"})  # says less than the codes
    assert notes(frame(group=merged), ["shop", "group"], ["paid"]) == []


def test_a_copy_of_numbers_is_told_with_missing_values_in_both() -> None:
    paid = frame()["paid"].set(pl.Series(np.arange(N) % 7 == 0), None)
    assert notes(frame(paid=paid, cost=paid), ["shop"], ["paid", "cost"]) == [
        "column 'cost' repeats 'paid' in every event; leave one of them out of numeric= (--numeric)"
    ]
    assert notes(frame(paid=paid, cost=paid.fill_null(0)), ["shop"], ["paid", "cost"]) == []


def test_a_difference_outside_the_sample_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventvec.tables.column_notes.SAMPLE", 10)
    for where in (1, 2, 3):  # at most one of them is in the sample
        table = frame(card=np.zeros(N, int), twin=frame()["shop"], cost=frame()["paid"], zero=np.zeros(N))
        table[where, "twin"], table[where, "cost"], table[where, "zero"] = (
            "c" if table[where, "shop"] != "c" else "a",
            9,
            1,
        )
        assert notes(table, ["shop", "twin"], ["paid", "cost", "zero"]) == []


def test_a_listed_constant_is_told() -> None:
    found = notes(frame(one=np.ones(N), land="DE"), ["shop", "land"], ["paid", "one"])
    assert found == [
        "column 'land' is constant, so that it tells nothing; leave it out of categorical= (--categorical)",
        "column 'one' is constant, so that it tells nothing; leave it out of numeric= (--numeric)",
    ]
    gaps = pl.Series([None, 1.0] * (N // 2))  # whether it is missing tells something
    assert notes(frame(one=gaps), ["shop"], ["paid", "one"]) == []


def test_a_listed_column_that_is_near_unique_is_told_with_the_option_to_change() -> None:
    receipt = [f"r{each}" for each in range(N)]
    assert notes(frame(receipt=receipt), ["shop", "receipt"], ["paid"]) == [
        "column 'receipt' is of little use: it is near-unique (400 distinct values in 400 rows), like an identifier; "
        "leave it out of categorical= (--categorical), or name it in hashed= (--hashed)"
    ]
    assert notes(frame(receipt=receipt), ["shop"], ["paid"], hashed=["receipt"]) == []


def test_amounts_beside_several_currencies_are_told() -> None:
    rng = np.random.default_rng(2)
    ccy = rng.choice(["EUR", "USD"], N)
    (note,) = notes(frame(trx_ccy=ccy, age=rng.random(N)), ["shop", "trx_ccy"], ["paid", "age"])
    assert note.startswith("'paid' may be in several currencies, by column 'trx_ccy', and one scale is fitted to all; ")
    assert notes(frame(trx_ccy=ccy, age=rng.random(N)), ["shop", "trx_ccy"], ["age"]) == []  # no amount
    converted = frame(trx_ccy=ccy, paid_eur=rng.random(N), paid_gbp=rng.random(N))
    (note,) = notes(converted, ["shop", "trx_ccy"], ["paid_eur", "paid_gbp"])
    assert note.startswith("'paid_gbp' may be in several currencies")
    assert notes(frame(side=ccy), ["shop", "side"], ["paid"]) == []  # no currency by its name
    assert notes(frame(currency=rng.choice(["euro", "yen"], N)), ["shop", "currency"], ["paid"]) == []


@pytest.mark.parametrize("separator", ["|", ";", ",", "/", " "])
def test_several_codes_in_one_text_are_told(separator: str) -> None:
    rng = np.random.default_rng(3)
    genres = np.array(["Action", "Comedy", "Drama"])
    sets = [separator.join(rng.choice(genres, rng.integers(1, 3), replace=False)) for _ in range(N)]
    (note,) = notes(frame(genre=sets), ["shop", "genre"], ["paid"])
    assert note.startswith(f"texts in column 'genre' hold several codes with {separator!r} between them")
    assert note.endswith("name the column in summed= (--summed)")


@pytest.mark.parametrize(
    "values",
    [
        ("category 1", "category 2", "category 3", "category 4"),
        ("New York", "New Jersey", "Los Angeles", "Los Altos", "York"),
        ("credit card", "debit card", "gift card", "cash"),
        ("Food/Drink", "Food/Meat", "Food/Fish", "Toys/Games"),
        ("a|b", "a", "b"),
    ],
)
def test_names_of_several_words_hold_one_code(values: tuple[str, ...]) -> None:
    assert joined_by(Categorical("x", values, text=True)) is None


def test_few_events_tell_nothing() -> None:
    assert notes(frame(one=np.ones(N), twin=frame()["shop"])[:49], ["shop", "twin"], ["paid", "one"]) == []


def test_a_store_tells_the_same_and_scoring_tells_nothing(tmp_path: Path) -> None:
    table = frame(one=np.ones(N), twin=frame()["shop"])
    arguments = (table, ["shop", "twin"], ["paid", "one"])
    assert notes(*arguments, store=tmp_path / "store") == notes(*arguments)
    assert len(notes(*arguments)) == 2
    assert (tmp_path / "store" / INDEX).exists()
    schema = ev.read(table, key="card", time="day", categorical=["shop", "twin"], numeric=["paid", "one"]).schema
    assert ev.read(table, schema=schema).notes == ()
