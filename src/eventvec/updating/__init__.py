"""Fresh embeddings from stored entity states and new events alone.

::

    batches       `update`: applies a batch of events
    late_events   events that are older than the state of their entity
    entity_state  what is stored for an entity, as bytes
    store         the sqlite file of entity states and batches
"""

from eventvec.updating.batches import Updated, UpdateOptions, update
from eventvec.updating.store import forget

__all__ = ["UpdateOptions", "Updated", "forget", "update"]
