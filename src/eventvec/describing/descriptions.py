"""`describe`: the sentences of each history, the most telling ones first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from eventvec.dataset import Dataset
from eventvec.describing.histories import AS_WRITTEN, Histories
from eventvec.describing.templates import TEMPLATES, Template
from eventvec.errors import ConfigError, DataError, shown
from eventvec.options import at_least


def describe(
    data: Dataset,
    *,
    names: Mapping[str, str] | None = AS_WRITTEN,
    most: int = 30,
    templates: Sequence[Template] = TEMPLATES,
) -> pl.DataFrame:
    """Return sentences about each history that are true of its events, the most telling ones first.

    The sentences follow from the schema, without training: how many events there are and over how long; the most
    frequent codes, how varied they are, the first and the last; what comes before, after or together with what, and
    when; silences, bursts and intervals; numbers that are high, low, rising or falling, for each parameter in a table
    of (parameter, value); hours and weekdays; and what changes from the first half to the second. The functions in
    `eventvec.describing.templates` say exactly when each holds. A sentence is the more telling the fewer histories it
    is true of. Codes are written out, also if they are names of people.

    Args:
        data: The histories.
        names: The words that stand for names of columns and for codes, which stand as they are by default. With None,
            codes are numbered, so no value of a column is in a sentence.
        most: The largest number of sentences of a history.
        templates: The kinds of sentences: functions of `Histories` that return a table of `row` and `sentence`.

    Returns:
        A row per sentence: the key, `sentence`, and `share`, the share of the histories for which it is true. Histories
        are in the order of the data, and those without events have no row.

    Raises:
        ConfigError: If `most` is below 1, or a template returns another table.
        DataError: If no history has an event.

    Example:
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [1, 1, 1, 2], "day": [1, 2, 9, 4], "mcc": ["5411", "5411", "5411", "4111"]})
        >>> rare = ev.Fitting(min_count=1)  # in a small table no code is frequent
        >>> data = ev.read(events, key="card", time="day", categorical=["mcc"], fitting=rare)
        >>> table = ev.describe(data, names={"mcc": "shop", "5411": "grocery", "4111": "bus"}, most=2)
        >>> table.filter(pl.col("card") == 1)["sentence"].to_list()
        ['There are 3 to 5 events.', 'All events have the shop grocery.']
    """
    at_least("most", most, 1)
    histories = Histories.of(data, names)
    every = sentences(histories, templates)
    ordered = (
        every.with_columns(share=pl.len().over("sentence") / histories.n)
        .sort("row", "share", "place", "sentence").group_by("row", maintain_order=True).head(most)
    )  # fmt: skip
    keys = pl.Series(data.schema.key_out, data.keys)
    return pl.DataFrame([keys.gather(ordered["row"]), ordered["sentence"], ordered["share"]])


def sentences(histories: Histories, templates: Sequence[Template] = TEMPLATES) -> pl.DataFrame:
    """Return all sentences about histories.

    Args:
        histories: What the sentences are about.
        templates: The kinds of sentences. They see a block of histories at a time; what all have in common is in
            `limits`.

    Returns:
        A row per sentence: `row` (the place of the history in the data), `sentence`, and `place`, that of its template.

    Raises:
        ConfigError: If a template returns another table.
        DataError: If no history has an event.
    """
    if not histories.n:
        raise DataError("there is nothing to describe, because no history has an event")
    return pl.concat([_in_block(block, templates) for block in histories.blocks()])


def _in_block(histories: Histories, templates: Sequence[Template]) -> pl.DataFrame:
    """Return all sentences about the histories of a block."""
    tables = []
    for place, template in enumerate(templates):
        table = template(histories)
        if not isinstance(table, pl.DataFrame) or dict(table.schema) != {"row": pl.Int64, "sentence": pl.String}:
            raise ConfigError(
                f"the template {shown(getattr(template, '__name__', repr(template)))} must return a table with the "
                "columns row (whole numbers) and sentence (text)"
            )
        tables.append(table.with_columns(place=pl.lit(place)))
    return pl.concat(tables).unique(("row", "sentence"), keep="first", maintain_order=True)
