"""A privacy audit of a model: what its vectors reveal about people, in three questions.

::

    privacy_audit  `audit`: all three questions on one model and its events
    audit_options  its options
    attributes     which protected columns can be read from the vectors
    linkage        whether two parts of one history can be matched across files
    membership     whether it shows that somebody was in the training data
    findings       the answers in words, the verdict, and what a reader must know besides
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.auditing.privacy_audit import audit as audit

import_at_first_use(__name__, {"eventvec.auditing.privacy_audit": "audit"})
