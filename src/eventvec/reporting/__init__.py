"""One self-contained HTML page about a run: what its embedding predicts, how training went, and a map of the entities.

::

    document  the page and its tables
    charts    charts of evaluations and of the training loss, and the colours that all charts share
    maps      a map of the entities: coordinates by t-SNE, coloured by labels

The page takes plain data. It contains everything it shows, plotly.js included, and its content security policy forbids
it to load anything. All text from data is escaped, in charts too.
"""

from __future__ import annotations

from eventvec.reporting.document import Table, page
from eventvec.reporting.maps import Map, map2d

__all__ = ["Map", "Table", "map2d", "page"]
