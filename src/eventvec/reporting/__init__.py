"""One self-contained HTML page about a run: what its embedding predicts, a map of the entities, and what the data are.

::

    run_report      `report`: the page about a run, embeddings, labels and evaluations
    document        pages as text, from their sections, also those about other results
    headline        the first sentence of the page
    charts          charts of evaluations, drivers and the training loss, and the colours that all charts share
    overview        lengths of histories, events over time, missing and unknown values
    maps            a map of the entities: coordinates by t-SNE, and columns that colour it
    entity_columns  what is known of each entity: labels, static columns, counts
    neighbours      nearest neighbours of entities
    timelines       the last events of histories

The page contains everything it shows, plotly.js included, and its content security policy forbids it to load anything.
All text from data is escaped, in charts too. What its scripts draw is in sentences and tables as well.
"""

from __future__ import annotations

from eventvec.reporting.document import Nearby, PageTable, page, write_page
from eventvec.reporting.maps import Map, map2d
from eventvec.reporting.run_report import JOINED, Report, need_packages, report

__all__ = ["JOINED", "Map", "Nearby", "PageTable", "Report", "map2d", "need_packages", "page", "report", "write_page"]
