"""`read_index`: an index of either kind from its file."""

from __future__ import annotations

from pathlib import Path

from eventvec.searching.index_files import Content, damaged
from eventvec.searching.sentence_index import KIND, SentenceIndex
from eventvec.searching.vector_index import Index


def read_index(path: Path | str) -> Index | SentenceIndex:
    """Return the index in a file that `Index.save` or `SentenceIndex.save` wrote.

    Raises:
        CheckpointError: If there is no such file, it holds no index, is damaged, or is of a later version; or if the
            language model of its sentences is another one now.
        ConfigError: If that language model is not installed.

    Example:
        >>> read_index("absent.index")
        Traceback (most recent call last):
        eventvec.errors.CheckpointError: absent.index does not exist; give an index that `eventvec search --save` ...
    """
    content = Content.read(path)
    try:
        return (SentenceIndex if content.about.get("kind") == KIND else Index).loaded(content)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise damaged(path) from error
