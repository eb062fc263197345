"""Fresh embeddings from stored entity states and new events alone.

::

    batches       `update`: applies a batch of events
    update_options  its options
    late_events   events that are older than the state of their entity
    entity_state  what is stored for an entity, as bytes
    store         the entity states and batches in a sqlite file
    store_file    the file: what it knows of itself, and where it is refused
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.updating.batches import Updated as Updated
    from eventvec.updating.batches import update as update
    from eventvec.updating.store_file import forget as forget
    from eventvec.updating.update_options import UpdateOptions as UpdateOptions

import_at_first_use(
    __name__,
    {
        "eventvec.updating.batches": "Updated update",
        "eventvec.updating.store_file": "forget",
        "eventvec.updating.update_options": "UpdateOptions",
    },
)
