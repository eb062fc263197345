"""Whether two periods differ, in their events and in their embeddings.

::

    comparison    `drift`: all columns and the embeddings of two periods, and a verdict
    drift_options its options
    period_tables the tables of two periods, read by one schema
    periods       the two periods as rows: which entities are in both, which are sampled
    profiles      each column as one row of shares per entity
    permutations  p-values by permuting periods between entities, and within those that are in both
    differences   the verdict and the figures

The unit of everything is the entity: events of one entity depend on one another, so a test that counts events as
independent finds differences where there are none.
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.shift.comparison import drift as drift
    from eventvec.shift.drift_options import DriftOptions as DriftOptions

import_at_first_use(__name__, {"eventvec.shift.comparison": "drift", "eventvec.shift.drift_options": "DriftOptions"})
