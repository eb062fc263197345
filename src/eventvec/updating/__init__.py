"""Fresh embeddings from stored entity states and new events alone.

::

    batches       `update`: applies a batch of events
    update_options  its options
    late_events   events that are older than the state of their entity
    entity_state  what is stored for an entity, as bytes
    store         the entity states and batches in a sqlite file
    store_file    the file: what it knows of itself, and where it is refused
"""
