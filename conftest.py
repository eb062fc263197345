"""What tests, documents and examples in docstrings share."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Generator, Iterator

import pytest

from eventvec import parts


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, nor later in what was made then: nearly all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)  # without it, packages in C++ report all that they have as lost
        gc.enable()


@pytest.fixture(autouse=True)
def registered_parts_are_taken_back() -> Iterator[None]:
    """Take back the parts that a test, a document or an example in a docstring registers."""
    before = set(parts.REGISTERED)
    yield
    for name in set(parts.REGISTERED) - before:
        kind, _ = parts.REGISTERED.pop(name)
        del parts.KINDS[kind][name]
