"""The command line, whose commands call the Python functions of the same names.

::

    application  the application, and the arguments that commands share
    commands     the commands that read, train, score and evaluate
    card_command   `card`, which shows the model card of a run
    drift_command  `drift`, which compares two periods
    parameters   options of commands, from the dataclasses of the Python functions
    recording    the records of a training, on the terminal and in folders
    terminal     results, notes, progress bars and errors
    demo         the demonstration on data inside the package
    doctor       the versions, devices and extras of this machine
"""

from eventvec.cli import card_command, commands, drift_command  # noqa: F401 (they add their commands to the application)
from eventvec.cli.application import app, main

__all__ = ["app", "main"]
