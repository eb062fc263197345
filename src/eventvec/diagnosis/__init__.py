"""Does the data meet what a method assumes: asked before anything is trained.

::

    lengths   lengths against a power law; Theorem 1 of the CoLES paper in numbers; what slices do to lengths
    repeat    do events repeat: divergence of event types within and between entities, at matched lengths
    order     is order readable: adjacent windows, over all fields and by each
    clocks    columns from which order leaks: counters, dates, ages, ids
    estimate  numbers with intervals, by drawing entities again; the threshold
    probe     diagnose: all of it, and a verdict per method
    result    Diagnosis: to_dict for a file, render for a terminal
    render    its parts in the terminal
    page      the same as an HTML page
"""

from __future__ import annotations

from eventvec.diagnosis.checks import diagnose
from eventvec.diagnosis.clocks import clock
from eventvec.diagnosis.estimate import MET, Estimate
from eventvec.diagnosis.lengths import power_law, slice_lengths, theorem1
from eventvec.diagnosis.page import page, write_page
from eventvec.diagnosis.repetition import repeatability
from eventvec.diagnosis.verdicts import Diagnosis, Verdict
from eventvec.diagnosis.window_order import irreversibility

__all__ = [
    "MET",
    "Diagnosis",
    "Estimate",
    "Verdict",
    "clock",
    "diagnose",
    "irreversibility",
    "page",
    "power_law",
    "repeatability",
    "slice_lengths",
    "theorem1",
    "write_page",
]
