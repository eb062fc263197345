"""eventvec turns event histories into vectors.

Read events with `read`, train with `fit`, get one vector per entity with `embed`, and measure what the vectors are
worth with `evaluate`. Encoders are in `eventvec.encoders`, methods in `eventvec.methods`, view samplers in
`eventvec.views`, losses in `eventvec.losses`, public data sets in `eventvec.datasets`. See the README for the command
line.
"""

# ruff: noqa: E402 (what handles signals stands before the imports that take long)
from eventvec import interrupts

interrupts.end_quietly()

import importlib
import typing

from eventvec import datasets, encoders, losses, methods, views
from eventvec.answers import Answer
from eventvec.attribution import influence
from eventvec.auditing import audit
from eventvec.comparing import compare
from eventvec.config import build_method
from eventvec.dataset import Dataset, Origin
from eventvec.describing import describe
from eventvec.embedding import embed, encode
from eventvec.engines import Shards, embed_shards, forget_in_shards, update_shards
from eventvec.errors import CheckpointError, ConfigError, DataError, EventvecError
from eventvec.evaluation import evaluate, score_features
from eventvec.labels import future_labels
from eventvec.parts import register
from eventvec.predicting.event_surprise import surprise
from eventvec.predicting.prediction import predict
from eventvec.reporting import report
from eventvec.runs import Run, card, features, load
from eventvec.schema import Schema
from eventvec.searching import Index, SentenceIndex, read_index, search
from eventvec.sequences import Sequences, join, searchsorted, stack
from eventvec.shift import drift
from eventvec.statistics import Estimate
from eventvec.tables import Embeddings, Fitting, attach, read, read_embeddings, read_series, until, write
from eventvec.tables.series_statistics import series_features
from eventvec.training import FitOptions, fine_tune, fit
from eventvec.training.records import to_mlflow, to_tensorboard
from eventvec.tuning import tune
from eventvec.updating import Updated, forget, update
from eventvec.views import as_of

if typing.TYPE_CHECKING:
    from eventvec.exporting import to_onnx
    from eventvec.predicting.event_estimators import EventClassifier, EventRegressor
    from eventvec.predicting.vectorizer import EventVectorizer
    from eventvec.serving import Push, Pushed, StateSession, open_state
    from eventvec.serving.server import serve

__all__ = [
    "Answer",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "Dataset",
    "Embeddings",
    "Estimate",
    "EventClassifier",
    "EventRegressor",
    "EventVectorizer",
    "EventvecError",
    "FitOptions",
    "Fitting",
    "Index",
    "Origin",
    "Push",
    "Pushed",
    "Run",
    "Schema",
    "SentenceIndex",
    "Sequences",
    "Shards",
    "StateSession",
    "Updated",
    "as_of",
    "attach",
    "audit",
    "build_method",
    "card",
    "compare",
    "datasets",
    "describe",
    "drift",
    "embed",
    "embed_shards",
    "encode",
    "encoders",
    "evaluate",
    "features",
    "fine_tune",
    "fit",
    "forget",
    "forget_in_shards",
    "future_labels",
    "influence",
    "join",
    "load",
    "losses",
    "methods",
    "open_state",
    "predict",
    "read",
    "read_embeddings",
    "read_index",
    "read_series",
    "register",
    "report",
    "score_features",
    "search",
    "searchsorted",
    "series_features",
    "serve",
    "stack",
    "surprise",
    "to_mlflow",
    "to_onnx",
    "to_tensorboard",
    "tune",
    "until",
    "update",
    "update_shards",
    "views",
    "write",
]


_LATE = {
    "EventClassifier": "eventvec.predicting.event_estimators",
    "EventRegressor": "eventvec.predicting.event_estimators",
    "EventVectorizer": "eventvec.predicting.vectorizer",
    "to_onnx": "eventvec.exporting",
    "serve": "eventvec.serving.server",
    **dict.fromkeys(("Push", "Pushed", "StateSession", "open_state"), "eventvec.serving"),
}
"""What is imported at its first use: the estimators, which need scikit-learn, and what serves a finished run."""


def __getattr__(name: str) -> typing.Any:
    """Return a name of `_LATE`."""
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    below = [module.__name__ for module in (datasets, encoders, losses, methods, views) if name in vars(module)]
    advice = f"; it is {below[0]}.{name}" if below and not name.startswith("_") else ""
    raise AttributeError(f"module 'eventvec' has no attribute {name!r}{advice}")


def __dir__() -> list[str]:
    return [*globals(), *_LATE]
