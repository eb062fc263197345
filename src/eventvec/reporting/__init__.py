"""One self-contained HTML page about a run: what its embedding predicts, a map of the entities, and what the data are.

::

    run_report      `report`: the page about a run, embeddings, labels and evaluations
    overview        how training went; lengths of histories, events over time, missing and unknown values
    maps            a map of the entities: coordinates by t-SNE, and columns that colour it
    entity_columns  what is known of each entity: labels, static columns, counts
    neighbours      nearest neighbours of entities
    timelines       the last events of histories
    in_words        sentences about histories, and what two have in common

The page is one of `answers.page`; only the map and the timelines have scripts. What they draw is in a table as well.
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.reporting.maps import map2d as map2d
    from eventvec.reporting.run_report import JOINED as JOINED
    from eventvec.reporting.run_report import need_packages as need_packages
    from eventvec.reporting.run_report import report as report

import_at_first_use(
    __name__, {"eventvec.reporting.maps": "map2d", "eventvec.reporting.run_report": "JOINED need_packages report"}
)
