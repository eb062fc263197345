"""The doors: any table of events in, as a `Dataset`; embeddings out, with the keys as they came.

What is *not* here: what columns mean once they are read (`schema`), and anything that learns.

    sources     Parquet, CSV, Arrow: columns on demand       times      time columns, moments, intervals
    fields      codes, numbers, vocabularies, scales          keys       types of keys, joins by key, hashes of keys
    reading     `read`: checks, windows                       order      rows by key and time
    statics     `attach`: columns about the entity            events     `open_events`: what a configuration reads
    cuts        cutting in time, label tables, summaries
    embeddings  the embeddings file                           predictions  what a classifier says, as a table
"""

from eventvec.tables.cutoffs import until
from eventvec.tables.embeddings import Embeddings, held_out, none_later, read_embeddings, same_entities, write
from eventvec.tables.events import open_cutoffs, open_events
from eventvec.tables.fields import Fitting
from eventvec.tables.keys import align, holdout_mask
from eventvec.tables.predictions import write_predictions
from eventvec.tables.reading import read
from eventvec.tables.sources import read_table
from eventvec.tables.statics import attach, attach_known
from eventvec.tables.summary import describe

__all__ = [
    "Embeddings",
    "Fitting",
    "align",
    "attach",
    "attach_known",
    "describe",
    "held_out",
    "holdout_mask",
    "none_later",
    "open_cutoffs",
    "open_events",
    "read",
    "read_embeddings",
    "read_table",
    "same_entities",
    "until",
    "write",
    "write_predictions",
]
