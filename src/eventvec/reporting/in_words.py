"""Histories in words, which the page shows beside neighbours: what is telling of one, and what two have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from eventvec.dataset import Dataset
from eventvec.describing.descriptions import sentences
from eventvec.describing.histories import AS_WRITTEN, Histories
from eventvec.reporting.maps import packed
from eventvec.sequences import Array

DESCRIBED, EVENTS = 1_000, 100_000
"""The largest number of histories that are described, and of their events; examples and their neighbours always are."""
SHOWN = 3
"""The largest number of sentences that are shown of a history."""


@dataclass(frozen=True, eq=False)
class InWords:
    """The sentences that are true of histories.

    Args:
        texts: The distinct sentences, the most telling ones first: those that are true of the fewest of these
            histories.
        ids: The positions in `texts` of the sentences of each history that was described, by its row, the most telling
            ones first.
    """

    texts: list[str]
    ids: dict[int, Array]

    @staticmethod
    def of(data: Dataset, order: Array, least: int) -> InWords:
        """Describe histories, compared with one another, the rows first in `order` before others.

        The first `least` rows are described however many events they have.
        """
        lengths = data.sequences.lengths.cpu().numpy()[order]
        within = int((lengths.cumsum() <= EVENTS).sum())
        rows = order[: max(least, min(within, DESCRIBED))]
        table = sentences(Histories.of(data[rows], AS_WRITTEN))
        telling = table.group_by("sentence").agg(pl.len(), pl.col("place").min()).sort("len", "place", "sentence")
        numbered = telling.select("sentence").with_row_index("id")
        ordered = table.join(numbered, on="sentence").sort("row", "id")
        counts = np.bincount(ordered["row"].to_numpy(), minlength=len(rows))
        ids = np.split(ordered["id"].to_numpy(), counts.cumsum()[:-1])
        return InWords(numbered["sentence"].to_list(), dict(zip(rows.tolist(), ids, strict=True)))

    def about(self, row: int, like: int) -> str:
        """Return the most telling sentences about a history; if `like` is another one, of those true of both."""
        ids = self.ids[row][np.isin(self.ids[row], self.ids[like])]
        both = "Both: " if row != like and len(ids) else ""
        return both + " ".join(self.texts[place] for place in ids[:SHOWN].tolist())

    def to_dict(self) -> dict[str, Any]:
        """Return what the script of the page shows sentences from."""
        return {
            "texts": self.texts,
            "rows": packed(np.array([*self.ids], np.uint32)),
            "lengths": packed(np.array([*map(len, self.ids.values())], np.uint16)),
            "ids": packed(np.concatenate([*self.ids.values()]).astype(np.uint32)),
            "shown": SHOWN,
        }
