"""A privacy audit of a run: what its vectors reveal about people, in three questions.

::

    privacy_audit  `audit`: all three questions on one run and its events
    attributes     which protected columns can be read from the vectors
    linkage        whether two parts of one history can be matched across files
    membership     whether it shows that somebody was in the training data
    findings       `Audit` and `Finding`: answers as sentences, plain values and tables
    areas          areas under the ROC curve and their standard errors
    audit_page     the audit as an HTML page
"""

from __future__ import annotations

from eventvec.auditing.audit_page import page
from eventvec.auditing.findings import Audit, Finding
from eventvec.auditing.privacy_audit import audit

__all__ = ["Audit", "Finding", "audit", "page"]
