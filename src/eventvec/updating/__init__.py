"""Fresh vectors and predictions from what is stored of entities and new events alone.

::

    batches             `update`: applies a batch of events, or of rows of tables
    update_options      its options
    batch_identity      by which events a batch is known, whatever their order
    late_events         events that are older than the last one of their entity
    entity_state        running states, latest events and features of entities, from and to bytes
    tables_beside       static columns, labels and further features, as rows in a store
    entity_answers      what is returned of an entity: its vector, and what each head predicts
    stored_predictions  the predictions of all entities of a store
    store               all of these and the batches in a sqlite file
    store_file          the file: what it knows of itself, and where it is refused
    store_log           the log beside the file, and damage in it
"""
