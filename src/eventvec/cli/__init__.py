"""The command line, whose commands call the Python functions of the same names.

::

    commands    the commands
    parameters  options of commands, from the dataclasses of the Python functions
    terminal    results, notes, progress bars and errors
    demo        the demonstration on data inside the package
    doctor      the versions, devices and extras of this machine
"""

from eventvec.cli.commands import app, main

__all__ = ["app", "main"]
