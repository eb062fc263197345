"""Reading and writing tables: any table of events in, as a `Dataset`; embeddings out, with their keys.

::

    reading          `read`                                     read_options  the options of `read`
    series           `read_series`: arrays of regular series
    sources          Parquet, CSV, Arrow: columns on demand     paths         the files of a path; whether they changed
    csv_files        names, types and values of CSV files       layouts       Arrow layouts; checks of damaged columns
    request          which column plays which role              arrangement   the rows in order of key and time, cut
    assembly         from parts of a table to schema, columns   column_builders  columns that grow part by part
    sinks            arrays in memory, or files                 column_reader    a column in the order of the events
    coding           codes, numbers, vocabularies               scales        means, deviations and bins of numbers
    kinds            kinds of columns that nobody listed        nested, lists    bags and texts; exploded lists
    column_notes     notes on copies, constants, joined codes and currencies
    times            time columns and intervals                 sorting       the order of rows, and of ties
    keys             types of keys, joins and hashes            cutoffs       cutting histories at a time
    label_times      when labels became known, and the histories as of then
    untimed_labels   labels for which no column of times was found: why, and the refusal of several rows of a key
    out_of_core      `read` into a store                        key_parts     a table in parts of whole entities
    mapped           the files of a store                       statics       `attach`: columns about the entity
    embeddings       `Embeddings` and their file                summary       what is in a data set, for people to check
    outputs          files to write, which replace nothing of others
    prediction_places  covariates at which entities are predicted
    addresses        where a table in a database is             databases     reading and writing them
    duckdb_tables, postgres_tables, delta_tables                what differs between these

Not here: what columns mean once they are read (`schema`), and anything that learns.
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.tables.cutoffs import until as until
    from eventvec.tables.embeddings import Embeddings as Embeddings
    from eventvec.tables.embeddings import read_embeddings as read_embeddings
    from eventvec.tables.embeddings import write as write
    from eventvec.tables.keys import align as align
    from eventvec.tables.keys import holdout_mask as holdout_mask
    from eventvec.tables.outputs import check_output as check_output
    from eventvec.tables.outputs import check_place as check_place
    from eventvec.tables.read_options import Fitting as Fitting
    from eventvec.tables.reading import read as read
    from eventvec.tables.series import read_series as read_series
    from eventvec.tables.sources import read_table as read_table
    from eventvec.tables.statics import attach as attach
    from eventvec.tables.statics import attach_known as attach_known
    from eventvec.tables.summary import describe as describe
    from eventvec.tables.summary import facts as facts

import_at_first_use(
    __name__,
    {
        "eventvec.tables.cutoffs": "until",
        "eventvec.tables.embeddings": "Embeddings read_embeddings write",
        "eventvec.tables.keys": "align holdout_mask",
        "eventvec.tables.outputs": "check_output check_place",
        "eventvec.tables.read_options": "Fitting",
        "eventvec.tables.reading": "read",
        "eventvec.tables.series": "read_series",
        "eventvec.tables.sources": "read_table",
        "eventvec.tables.statics": "attach attach_known",
        "eventvec.tables.summary": "describe facts",
    },
)
