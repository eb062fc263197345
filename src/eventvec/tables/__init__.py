"""Reading and writing tables: any table of events in, as a `Dataset`; embeddings out, with their keys.

::

    series      `read_series`: arrays of regular series
    reading     `read`: checks, order, columns                read_options  the options of `read`
    sources     Parquet, CSV, Arrow: columns on demand        times       time columns and intervals
    csv_files   names, types and values of CSV files          paths       the files of a path; whether they changed
    layouts     Arrow layouts; checks of damaged columns
    fields      codes, numbers, vocabularies                  keys        types of keys, joins by key, hashes of keys
    request     which column plays which role                 sorting     the order of rows by key and time
    statics     `attach`: columns about the entity            cutoffs     cutting histories at a time
    embeddings  `Embeddings` and their file                   summary     what is in a data set, for people to check
    scales      means, deviations and bins of numbers         places      covariates at which entities are predicted
    outputs     files to write, which replace nothing of others
    addresses   where a table in a database is             databases       reading and writing them, in one transaction
    duckdb_tables, postgres_tables, delta_tables           what differs between these

Not here: what columns mean once they are read (`schema`), and anything that learns.
"""

from eventvec.tables.cutoffs import until
from eventvec.tables.embeddings import Embeddings, read_embeddings, write
from eventvec.tables.fields import Fitting
from eventvec.tables.keys import align, holdout_mask
from eventvec.tables.outputs import check_output, check_place
from eventvec.tables.reading import read
from eventvec.tables.series import read_series
from eventvec.tables.sources import read_table
from eventvec.tables.statics import attach, attach_known
from eventvec.tables.summary import describe, facts

__all__ = [
    "Embeddings",
    "Fitting",
    "align",
    "attach",
    "attach_known",
    "check_output",
    "check_place",
    "describe",
    "facts",
    "holdout_mask",
    "read",
    "read_embeddings",
    "read_series",
    "read_table",
    "until",
    "write",
]
