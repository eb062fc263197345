"""The command line, whose commands call the Python functions of the same names.

::

    application  the application, and the arguments that commands share
    commands     the commands that read, train, score and evaluate
    *_command    a module for each further command: audit, card, compare, drift, export, influence, labels, report,
                 search
    recording    the course of a training for TensorBoard and MLflow
    event_inputs the events that commands read
    parameters   options of commands, from the dataclasses of the Python functions
    terminal     results, notes, progress bars and errors
    demo         the demonstration on data inside the package
    doctor       the versions, devices and extras of this machine, or whether the files of a store are whole
"""

from eventvec.cli import (  # noqa: F401 (they add their commands to the application)
    audit_command,
    card_command,
    commands,
    compare_command,
    drift_command,
    export_command,
    influence_command,
    labels_command,
    report_command,
    search_command,
)
from eventvec.cli.application import app, main

__all__ = ["app", "main"]
