"""Fresh vectors and predictions for one entity at a time, from a state store that stays open.

::

    pushes   what is applied at once, and what comes back
    session  `open_state`: applies events as they come, and gives vectors and predictions
"""

from eventvec.serving.pushes import Push, Pushed
from eventvec.serving.session import StateSession, open_state

__all__ = ["Push", "Pushed", "StateSession", "open_state"]
