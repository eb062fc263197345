"""The command line: each command is a thin skin over the Python call of the same name.

::

    commands   the commands
    terminal   where they print, progress bars, and how options in text are read
    demo       the demonstration on data inside the package
    doctor     what this machine has
"""

from eventvec.cli.commands import app, main

__all__ = ["app", "main"]
