"""The command line, whose commands call the Python functions of the same names.

::

    application    the application, and the arguments that commands share
    commands       the commands that read, train, score and evaluate
    page_commands  those whose result is a page too: audit, compare, drift, report
    features_command  a table of features
    describe_command  what is true of each history, in sentences
    labels_command  labels of what follows
    tune_command   a search for settings
    serve_command  fresh vectors over HTTP
    run_commands   further ones on a run or its vectors: card, export, influence, search
    recording      the course of a training for TensorBoard and MLflow
    event_inputs   the events that commands read
    parameters     options of commands, from the Python functions and their dataclasses
    terminal       results, notes, progress bars and errors
    demo           the demonstration on data inside the package
    doctor         the versions, devices and extras of this machine, or whether the files of a store are whole
"""

from eventvec.cli import (  # noqa: F401 (they add commands)
    commands,
    describe_command,
    features_command,
    labels_command,
    page_commands,
    run_commands,
    serve_command,
    tune_command,
)
from eventvec.cli.application import app, main

__all__ = ["app", "main"]
