"""eventvec turns event histories into vectors.

Read events with `read`, build an encoder and a method, train with `fit`, get one vector per entity with `embed`, and
ask what they are worth with `evaluate`. See the README for the command line.
"""

from eventvec.checkpoint import Run, load
from eventvec.config import build_method
from eventvec.embed import embed
from eventvec.encoders import (
    ENCODERS,
    GRU,
    LSTM,
    EventEncoder,
    LanguageEncoder,
    Recurrent,
    SetEncoder,
    TemporalConvolution,
    Transformer,
)
from eventvec.errors import CheckpointError, ConfigError, DataError, EventvecError
from eventvec.evaluate import evaluate, join_labels
from eventvec.losses import HardNegatives
from eventvec.methods import (
    METHODS,
    CoLES,
    CReSP,
    ExpCLR,
    Order,
    Supervised,
    TargetedCReSP,
    TPPEmbedding,
    fclr,
    ocp,
    ocp_biased,
    pcl,
)
from eventvec.pairs import BiasedOrderPairs, OrderPairs, PermutationPairs
from eventvec.schema import Dataset, Schema
from eventvec.sequences import Sequences, join, searchsorted, stack
from eventvec.states import forget
from eventvec.tables import Fitting, attach, predict, read, read_embeddings, until, write
from eventvec.train import Result, fit
from eventvec.update import update
from eventvec.views import RandomSlices, RejectionSlices, as_of

__all__ = [
    "ENCODERS",
    "GRU",
    "LSTM",
    "METHODS",
    "BiasedOrderPairs",
    "CReSP",
    "CheckpointError",
    "CoLES",
    "ConfigError",
    "DataError",
    "Dataset",
    "EventEncoder",
    "EventvecError",
    "ExpCLR",
    "Fitting",
    "HardNegatives",
    "LanguageEncoder",
    "Order",
    "OrderPairs",
    "PermutationPairs",
    "RandomSlices",
    "Recurrent",
    "RejectionSlices",
    "Result",
    "Run",
    "Schema",
    "Sequences",
    "SetEncoder",
    "Supervised",
    "TPPEmbedding",
    "TargetedCReSP",
    "TemporalConvolution",
    "Transformer",
    "as_of",
    "attach",
    "build_method",
    "embed",
    "evaluate",
    "fclr",
    "fit",
    "forget",
    "join",
    "join_labels",
    "load",
    "ocp",
    "ocp_biased",
    "pcl",
    "predict",
    "read",
    "read_embeddings",
    "searchsorted",
    "stack",
    "until",
    "update",
    "write",
]
