"""A map of the entities: coordinates from their embeddings, and points coloured by labels."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from eventvec.errors import DataError, need
from eventvec.reporting.charts import PALETTE
from eventvec.tables.sources import read_table

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

OTHERS = "#9a8f80"
"""The colour of all groups that have none of their own."""


@dataclass(frozen=True, eq=False)
class Map:
    """Entities as points, which the reader can colour by one of several labels.

    Args:
        points: `(n, 2)` coordinates.
        colours: A frame of `n` rows with one column per label: numbers, text or booleans. Entities with a missing label
            are drawn in grey. Frames of other libraries, such as pandas, become frames of polars.
        hover: `n` texts, a series or a list, each shown when the reader points at the entity. Line feeds separate
            lines.
        caption: A sentence below the map.

    Raises:
        DataError: If `colours` has no column, or the numbers of points, rows and texts differ.

    Example:
        >>> colours = pl.DataFrame({"churn": [True, False, None], "age": [31, None, 62]})
        >>> Map(np.zeros((3, 2)), colours, pl.Series(["a", "b", "c"])).colours.columns
        ['churn', 'age']
    """

    points: Array
    colours: pl.DataFrame
    hover: pl.Series
    caption: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.colours, pl.DataFrame):
            object.__setattr__(self, "colours", read_table(self.colours))
        if not isinstance(self.hover, pl.Series):
            object.__setattr__(self, "hover", pl.Series("hover", list(self.hover), pl.String))
        n, width = len(self.points), self.colours.width
        if not width or {len(self.colours), len(self.hover)} != {n}:
            raise DataError(
                f"a map needs at least one label, and one row of labels and one text per point; got {n:,} points, "
                f"{len(self.colours):,} rows of {width} labels and {len(self.hover):,} texts"
            )


def map2d(z: Array, seed: int = 0) -> Array:
    """Return `(n, 2)` coordinates that keep near embeddings near, by t-SNE initialised with principal components.

    Columns are not standardised, so distances are those of the embedding itself, as in a search for nearest entities.
    The result is the same on every run. Time grows with the square of the number of entities; 4,000 take half a minute.
    The implementation is openTSNE (Poličar, Stražar and Zupan 2024).

    Args:
        z: `(n, dim)` embeddings, with `n` at least 4.
        seed: Seed of the optimisation.

    Raises:
        ConfigError: If openTSNE is not installed.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> xy = map2d(np.concatenate([rng.normal(size=(30, 8)), rng.normal(size=(30, 8)) + 9]))
        >>> bool((xy[:30].mean(0) - xy[30:].mean(0)).any()), xy.shape
        (True, (60, 2))
    """
    tsne = need("openTSNE", "viz").TSNE(
        perplexity=min(30, (len(z) - 1) / 3),
        initialization="pca",
        neighbors="exact",
        negative_gradient_method="bh",
        random_state=seed,
    )
    return np.asarray(tsne.fit(np.asarray(z, np.float64)))


def map_data(points: Map) -> dict[str, Any]:
    """Return what the script of the page draws the map from."""
    xy = np.round(np.asarray(points.points, np.float64), 2)
    return {
        "x": xy[:, 0].tolist(),
        "y": xy[:, 1].tolist(),
        "hover": _escaped(points.hover).to_list(),
        "colours": [colouring(column) for column in points.colours],
    }


def colouring(column: pl.Series) -> dict[str, Any]:
    """Return the rows of each group, most frequent first; for numbers, the values and the ends of the colour scale.

    Args:
        column: One label per entity.

    Example:
        >>> [(group["name"], group["rows"]) for group in colouring(pl.Series("kind", ["a", "b", None, "b"]))["groups"]]
        [('b', [1, 3]), ('a', [0])]
    """
    if column.dtype.is_float():
        column = column.fill_nan(None)
    known = column.is_not_null()
    common: dict[str, Any] = {"name": html.escape(column.name), "missing": (~known).arg_true().to_list()}
    if column.dtype.is_numeric():
        values = column.filter(known).cast(pl.Float64)
        ends = [values.quantile(q, "nearest") for q in (0.02, 0.98)]
        return {**common, "rows": known.arg_true().to_list(), "values": values.to_list(), "ends": ends}
    if column.dtype == pl.Boolean:
        column = column.replace_strict({True: "yes", False: "no"}, return_dtype=pl.String)
    cells = pl.DataFrame({"name": _escaped(column.cast(pl.String)), "rows": np.arange(len(column))}).filter(known)
    groups = cells.group_by("name").agg("rows").sort(pl.col("rows").list.len(), "name", descending=[True, False])
    n = len(groups) if len(groups) <= len(PALETTE) else len(PALETTE) - 1  # number of groups with a colour of their own
    coloured = [{**row, "colour": colour} for row, colour in zip(groups[:n].to_dicts(), PALETTE[:n], strict=True)]
    if n < len(groups):
        rest = groups["rows"][n:].explode().to_list()
        coloured.append({"name": f"{len(groups) - n} others", "rows": rest, "colour": OTHERS})
    return {**common, "groups": coloured}


def _escaped(texts: pl.Series) -> pl.Series:
    """Return texts that plotly shows as they are, though it interprets tags and entities."""
    special = {character: html.escape(character) for character in "&<>\"'"}
    return texts.str.replace_many([*special, "\n"], [*special.values(), "<br>"])
