"""The command line, whose commands call the Python functions of the same names.

::

    application     the application, and the arguments that commands share
    report_command  the command that writes a page about a run
    commands        the commands that read, train, score and evaluate
    parameters      options of commands, from the dataclasses of the Python functions
    terminal        results, notes, progress bars and errors
    demo            the demonstration on data inside the package
    doctor          the versions, devices and extras of this machine
"""

from eventvec.cli import commands, report_command  # noqa: F401 (they add their commands to the application)
from eventvec.cli.application import app, main

__all__ = ["app", "main"]
