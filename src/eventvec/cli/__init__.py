"""The command line, whose commands call the Python functions of the same names.

::

    application    the application, and the arguments that commands share
    commands       the commands that read, train, score and evaluate
    event_commands those that read events without a model: describe, features, labels
    page_commands  those whose result is a page too: audit, compare, drift, report; and tune
    run_commands   further ones on a run or its vectors: card, decide, export, influence, search, serve
    recording      the course of a training for TensorBoard and MLflow
    event_inputs   the events that commands read
    parameters     options of commands, from the Python functions and their dataclasses
    terminal       results, notes, progress bars and errors
    demo           the demonstration on data inside the package
    doctor         the versions, devices and extras of this machine, or whether the files of a store are whole
"""

from eventvec.cli import commands, event_commands, page_commands, run_commands  # noqa: F401 (they add commands)
from eventvec.cli.application import app, main

__all__ = ["app", "main"]
