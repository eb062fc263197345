"""Fresh embeddings from stored states.

`batches` has `update`, `entity_state` what is stored of an entity, `store` the sqlite file.
"""
