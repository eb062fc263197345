"""Search for similar histories: by a key, by a history, or by a text.

::

    vector_index  `Index`: vectors by key, searched exactly, or approximately with faiss; its file
    inverted      the approximate search: an inverted file of faiss, with a measured recall
    queries       `search`: from a query to an answer with the hits
    summaries     a history in one line, for people
"""

from __future__ import annotations

from eventvec.searching.queries import search
from eventvec.searching.vector_index import Index, read_index

__all__ = ["Index", "read_index", "search"]
