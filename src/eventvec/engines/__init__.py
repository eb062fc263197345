"""Embedding a large table of events in shards, by processes of this machine, Ray Data or Spark.

`embed_shards` and `update_shards` write a folder with one file for each shard and a manifest of their checksums, which
`read_embeddings` reads like one file. An engine brings the events of an entity together and runs the work; what is done
with a shard is the same for all of them, in `shard_worker`. A command that was killed goes on where it was when it is
given again: finished shards are not computed again, and a folder without a manifest is not complete.
"""
