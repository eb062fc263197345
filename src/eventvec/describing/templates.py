"""The sentences that `describe` writes: one function for each kind of fact.

A template takes `Histories` and returns a table of `row` and `sentence`, a sentence for each history of which the fact
holds. A fact has one wording. Numbers stand in bands, so histories share sentences. The functions are in
`code_facts`, `order_facts`, `time_facts` and `number_facts`, and their docstrings say when a sentence holds. To add one
of your own, give `describe(templates=[*TEMPLATES, mine])`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import polars as pl

from eventvec.describing import code_facts, number_facts, order_facts, time_facts
from eventvec.describing.histories import Histories

Template: TypeAlias = Callable[[Histories], pl.DataFrame]

TEMPLATES: tuple[Template, ...] = (
    time_facts.count, time_facts.span, code_facts.shares, code_facts.leaders, code_facts.variety, code_facts.newcomers,
    code_facts.ends, order_facts.follows, order_facts.repeats, order_facts.before, order_facts.placed,
    order_facts.regular, order_facts.clusters, order_facts.together, time_facts.silence, time_facts.pace,
    time_facts.intervals, time_facts.burst, order_facts.burst_of, time_facts.loose, time_facts.parts,
    time_facts.frequency, order_facts.changes, order_facts.gives_way, number_facts.levels, number_facts.averages,
    number_facts.trends, time_facts.hours, time_facts.weekdays,
)  # fmt: skip
"""All templates, in the order in which equally telling sentences stand."""
