"""The candidates for the default: tables of a configuration, beside the options that follow from the data."""

from __future__ import annotations

from eventvec.config import Table
from eventvec.sequences import Sequences
from eventvec.views.sizes import embedding_size, slice_bounds

READ_OUT = ["last", "mean", "max"]
MIXING = 64
BATCH_SIZE = 48

CANDIDATES = (
    "last",
    "read",
    "last+small",
    "read+small",
    "read+mixed",
    "read+mixed+small",
    "read+small+narrow",
    "next",
    "next+mixed",
)
"""The candidates, each by what it changes. `last` is the default of version 0.1.0.

::

    last    the embedding is the state after the last event
    read    it is that state beside the mean and the maximum of all states, and is trained so
    small   batches of 48 entities with 4 slices each, the shortest half as long
    mixed   the event encoder embeds the quantile bin of each number, and a network of width 64 mixes the columns
    narrow  the state has half the size
    next    the method predicts the next event; the embedding is read as with `read`
"""


def tables(name: str, x: Sequences) -> Table:
    """Return the configuration of a candidate for some rows.

    Args:
        name: A name in `CANDIDATES`.
        x: The rows to train on.
    """
    changes = name.split("+")
    shortest, longest = slice_bounds(x)
    dim = embedding_size(x)
    encoder: Table = {"name": "gru", "dim": dim, "read_out": READ_OUT, "events": {}}
    views: Table = {"name": "random_slices", "count": 5, "shortest": shortest, "longest": longest}
    config: Table = {"encoder": encoder, "method": {"name": "coles", "views": views}, "fit": {}}
    if "last" in changes:
        encoder["read_out"] = ["last"]
    if "narrow" in changes:
        encoder["dim"] = dim // 2
    if "mixed" in changes:
        encoder["events"] = {"bins": True, "mixing": MIXING}
    if "small" in changes:
        views.update(count=4, shortest=max(shortest // 2, 1))
        config["fit"]["batch_size"] = BATCH_SIZE
    if "next" in changes:
        config["method"] = {"name": "next_event"}
        config["fit"]["batch_size"] = BATCH_SIZE
    return config
