"""Checks of what methods assume about the data, before anything is trained.

::

    checks        `diagnose`: every check on one data set, and a verdict per method
    lengths       the power law that fits the sequence lengths best
    slicing       Theorem 1 of the CoLES paper, and how drawing slices changes the length distribution
    repetition    whether events repeat: divergence of event types within and between entities
    window_order  whether a linear model can order adjacent windows, from all fields and from each
    clocks        columns that reveal the order by themselves: counters, dates, ages, ids
    bootstrap     estimates with intervals, by resampling entities
    verdicts      `Diagnosis` and `Verdict`: plain values for a file, text for a terminal
    console       the tables of a diagnosis in a terminal
    html_page     a diagnosis as an HTML page
"""

from __future__ import annotations

from eventvec.diagnosis.bootstrap import MET, Estimate
from eventvec.diagnosis.checks import diagnose
from eventvec.diagnosis.clocks import clock
from eventvec.diagnosis.html_page import page, write_page
from eventvec.diagnosis.lengths import power_law
from eventvec.diagnosis.repetition import repeatability
from eventvec.diagnosis.slicing import slice_lengths, theorem1
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
