"""Processes of tests are forked from one that has imported what takes long."""

from __future__ import annotations

import sys

import processes


def lacking() -> None:
    assert not set(processes.IMPORTED) - sys.modules.keys()


def test_nothing_that_takes_long_is_imported_again() -> None:
    assert processes.exit_code(lacking) == 0
