"""Search for similar histories: by a key, by a history, or by words.

::

    vector_index    `Index`: vectors by key, searched exactly, or approximately with faiss
    inverted        the approximate search: an inverted file of faiss, with a measured recall
    sentence_index  `SentenceIndex`: sentences about histories, searched by words
    index_files     the file of an index
    queries         `read_index`: an index of either kind; `search`: from a query to an answer with the hits
    summaries       a history in one line, for people
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.searching.queries import read_index as read_index
    from eventvec.searching.queries import search as search
    from eventvec.searching.sentence_index import SentenceIndex as SentenceIndex
    from eventvec.searching.vector_index import Index as Index

import_at_first_use(
    __name__,
    {
        "eventvec.searching.queries": "read_index search",
        "eventvec.searching.sentence_index": "SentenceIndex",
        "eventvec.searching.vector_index": "Index",
    },
)
