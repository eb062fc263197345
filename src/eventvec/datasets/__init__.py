"""Real public data sets as `Dataset` and labels, each as its publisher distributes it.

::

    bundled       flights out of New York, inside the package
    receipts      completejourney, from an installed package of data
    competitions  age_group, rosbank, bowl2019, x5: those of Babaev et al. 2022, in the files of their competitions
    prefixes      rows that end at some time of a history, several for one entity
    folders       where the files of a competition are looked for

Nothing is downloaded. Of each set, `…_frames` gives the raw events and the labels, and the function without that ending
the same events as read by `eventvec.read`. Labels have one row per entity, null where an entity has none, and start
with the key column.
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
    "x5",
    "x5_frames",
]
