"""The two sets: what is searched, the questions, and which histories each question means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

import eventvec as ev
from experiments.tpp.parameter_names import PARAMETER_NAMES
from experiments.words import shop, stays
from experiments.words.queries import Array, Query, relevant

ONE_IN = 32
"""One history of this many is in the small mode."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A set of histories and questions.

    Args:
        name: The name of the set.
        data: The histories, by ascending key.
        names: The words for the codes of `data`.
        texts: Each history as text: the codes of all its events in words.
        queries: The questions.
        relevant: `(queries, histories)` whether a question means a history; each means at least one.
    """

    name: str
    data: ev.Dataset
    names: Mapping[str, str]
    texts: tuple[str, ...]
    queries: tuple[str, ...]
    relevant: Array


def _shop(small: bool) -> Problem:
    events = _part(shop.frame(), shop.KEY, small)
    codes = ("department", "product", "store")
    data = ev.read(events, key=shop.KEY, time="time", categorical=codes, numeric=("amount",))
    text = pl.concat_str(codes, separator=" ", ignore_nulls=True)
    return _problem("shop", data, {}, events.select(shop.KEY, text=text), shop.QUERIES, shop.for_rules(events))


def _stays(small: bool) -> Problem:
    events = _part(stays.frame(), stays.KEY, small)
    data = ev.read(events, key=stays.KEY, time="minute", categorical=("parameter",), numeric=("value",))
    lines = events.select(stays.KEY, text=pl.col("parameter").replace_strict(PARAMETER_NAMES))
    return _problem("stays", data, PARAMETER_NAMES, lines, stays.QUERIES, events)


PROBLEMS: Mapping[str, Callable[[bool], Problem]] = {"shop": _shop, "stays": _stays}
"""By name, what returns the whole set, or a part of it in the small mode."""


def _part(events: pl.DataFrame, key: str, small: bool) -> pl.DataFrame:
    """Return the events of some histories in the small mode."""
    if not small:
        return events
    keys = events[key].unique().sort().gather_every(ONE_IN)
    return events.filter(pl.col(key).is_in(keys.implode()))


def _problem(
    name: str,
    data: ev.Dataset,
    names: Mapping[str, str],
    lines: pl.DataFrame,
    queries: Sequence[Query],
    events: pl.DataFrame,
) -> Problem:
    """Return a set with those of the questions that mean a history."""
    key = data.schema.key_out
    fits = relevant(queries, events, key)
    texts = lines.group_by(key).agg(pl.col("text").str.join("\n")).sort(key)
    assert texts[key].to_list() == pl.Series(data.keys).to_list()
    asked = tuple(query.text for query, row in zip(queries, fits, strict=True) if row.any())
    return Problem(name, data, names, tuple(texts["text"]), asked, fits[fits.any(1)])
