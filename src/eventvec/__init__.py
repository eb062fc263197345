"""eventvec turns event histories into answers.

`EventClassifier` and `EventRegressor` predict dated labels from events. Read events with `read`, train without labels
with `fit`, get one vector per entity with `embed`, and measure what the vectors are worth with `evaluate`. Encoders are
in `eventvec.encoders`, methods in `eventvec.methods`, view samplers in `eventvec.views`, losses in `eventvec.losses`,
public data sets in `eventvec.datasets`. See the README for the command line.

Everything is imported at its first use.
"""

# ruff: noqa: E402 (what handles signals stands before all else)
from eventvec import interrupts

interrupts.end_quietly()

import typing

from eventvec import first_use

if typing.TYPE_CHECKING:
    from eventvec import datasets as datasets
    from eventvec import encoders as encoders
    from eventvec import losses as losses
    from eventvec import methods as methods
    from eventvec import views as views
    from eventvec.answers import Answer as Answer
    from eventvec.attribution import influence as influence
    from eventvec.auditing import audit as audit
    from eventvec.comparing import compare as compare
    from eventvec.config import build_method as build_method
    from eventvec.dataset import Dataset as Dataset
    from eventvec.dataset import Origin as Origin
    from eventvec.describing import describe as describe
    from eventvec.embedding import embed as embed
    from eventvec.embedding import encode as encode
    from eventvec.engines.shards import Shards as Shards
    from eventvec.engines.shards import embed_shards as embed_shards
    from eventvec.engines.shards import update_shards as update_shards
    from eventvec.engines.state_folder import forget_in_shards as forget_in_shards
    from eventvec.errors import CheckpointError as CheckpointError
    from eventvec.errors import ConfigError as ConfigError
    from eventvec.errors import DataError as DataError
    from eventvec.errors import EventvecError as EventvecError
    from eventvec.errors import EventvecWarning as EventvecWarning
    from eventvec.evaluation import evaluate as evaluate
    from eventvec.evaluation import score_features as score_features
    from eventvec.exporting import to_onnx as to_onnx
    from eventvec.labels import future_labels as future_labels
    from eventvec.models import Model as Model
    from eventvec.models import card as card
    from eventvec.models import features as features
    from eventvec.models import load as load
    from eventvec.parts import register as register
    from eventvec.predicting.decisions import decide as decide
    from eventvec.predicting.event_estimators import EventClassifier as EventClassifier
    from eventvec.predicting.event_estimators import EventRegressor as EventRegressor
    from eventvec.predicting.event_surprise import surprise as surprise
    from eventvec.predicting.explanation import explain as explain
    from eventvec.predicting.prediction import predict as predict
    from eventvec.predicting.vectorizer import EventVectorizer as EventVectorizer
    from eventvec.reporting import report as report
    from eventvec.schema import Schema as Schema
    from eventvec.searching import Index as Index
    from eventvec.searching import SentenceIndex as SentenceIndex
    from eventvec.searching import read_index as read_index
    from eventvec.searching import search as search
    from eventvec.sequences import Sequences as Sequences
    from eventvec.sequences import join as join
    from eventvec.sequences import searchsorted as searchsorted
    from eventvec.sequences import stack as stack
    from eventvec.serving.pushes import Push as Push
    from eventvec.serving.pushes import Pushed as Pushed
    from eventvec.serving.server import serve as serve
    from eventvec.serving.session import StateSession as StateSession
    from eventvec.serving.session import open_state as open_state
    from eventvec.shift import drift as drift
    from eventvec.statistics import Estimate as Estimate
    from eventvec.tables import Embeddings as Embeddings
    from eventvec.tables import Fitting as Fitting
    from eventvec.tables import attach as attach
    from eventvec.tables import read as read
    from eventvec.tables import read_embeddings as read_embeddings
    from eventvec.tables import read_series as read_series
    from eventvec.tables import until as until
    from eventvec.tables import write as write
    from eventvec.tables.series_statistics import series_features as series_features
    from eventvec.training import FitOptions as FitOptions
    from eventvec.training import HeadOptions as HeadOptions
    from eventvec.training import fine_tune as fine_tune
    from eventvec.training import fit as fit
    from eventvec.training import fit_head as fit_head
    from eventvec.training.records import to_mlflow as to_mlflow
    from eventvec.training.records import to_tensorboard as to_tensorboard
    from eventvec.tuning import tune as tune
    from eventvec.updating.batches import Updated as Updated
    from eventvec.updating.batches import update as update
    from eventvec.updating.store_file import forget as forget
    from eventvec.views import as_of as as_of

first_use.import_at_first_use(
    __name__,
    {
        "eventvec.answers": "Answer",
        "eventvec.attribution": "influence",
        "eventvec.auditing": "audit",
        "eventvec.comparing": "compare",
        "eventvec.config": "build_method",
        "eventvec.dataset": "Dataset Origin",
        "eventvec.describing": "describe",
        "eventvec.embedding": "embed encode",
        "eventvec.engines.shards": "Shards embed_shards update_shards",
        "eventvec.engines.state_folder": "forget_in_shards",
        "eventvec.errors": "CheckpointError ConfigError DataError EventvecError EventvecWarning",
        "eventvec.evaluation": "evaluate score_features",
        "eventvec.exporting": "to_onnx",
        "eventvec.labels": "future_labels",
        "eventvec.parts": "register",
        "eventvec.predicting.decisions": "decide",
        "eventvec.predicting.event_estimators": "EventClassifier EventRegressor",
        "eventvec.predicting.event_surprise": "surprise",
        "eventvec.predicting.explanation": "explain",
        "eventvec.predicting.prediction": "predict",
        "eventvec.predicting.vectorizer": "EventVectorizer",
        "eventvec.reporting": "report",
        "eventvec.models": "Model card features load",
        "eventvec.schema": "Schema",
        "eventvec.searching": "Index SentenceIndex read_index search",
        "eventvec.sequences": "Sequences join searchsorted stack",
        "eventvec.serving.pushes": "Push Pushed",
        "eventvec.serving.server": "serve",
        "eventvec.serving.session": "StateSession open_state",
        "eventvec.shift": "drift",
        "eventvec.statistics": "Estimate",
        "eventvec.tables": "Embeddings Fitting attach read read_embeddings read_series until write",
        "eventvec.tables.series_statistics": "series_features",
        "eventvec.training": "FitOptions HeadOptions fine_tune fit fit_head",
        "eventvec.training.records": "to_mlflow to_tensorboard",
        "eventvec.tuning": "tune",
        "eventvec.updating.batches": "Updated update",
        "eventvec.updating.store_file": "forget",
        "eventvec.views": "as_of",
    },
    modules=("datasets", "encoders", "losses", "methods", "views"),
)
