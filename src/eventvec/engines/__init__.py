"""Embedding a large table of events in shards, by processes of this machine, Ray Data or Spark.

`embed_shards` and `update_shards` write a folder with one file for each shard and a manifest of their checksums, which
`read_embeddings` reads like one file. An engine brings the events of an entity together and runs the work; what is done
with a shard is the same for all of them, in `shard_worker`. A command that was killed goes on where it was when it is
given again: finished shards are not computed again, and a folder without a manifest is not complete.
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.engines.job import EngineOptions as EngineOptions
    from eventvec.engines.shards import Shards as Shards
    from eventvec.engines.shards import embed_shards as embed_shards
    from eventvec.engines.shards import update_shards as update_shards
    from eventvec.engines.state_folder import forget_in_shards as forget_in_shards

import_at_first_use(
    __name__,
    {
        "eventvec.engines.job": "EngineOptions",
        "eventvec.engines.shards": "Shards embed_shards update_shards",
        "eventvec.engines.state_folder": "forget_in_shards",
    },
)
