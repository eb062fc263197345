"""An extension of griffe, which reads the docstrings for the site: the section `Example` is shown as examples, in code.

griffe knows the section `Examples` only, and would show the lines of an `Example` as quotations.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):  # type: ignore[misc]
    """Renames the section of each docstring before it is parsed."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
