"""eventvec turns event histories into vectors.

Read events with `read`, build an encoder and a method, train with `fit`, get one vector per entity with `embed`, and
ask what they are worth with `evaluate`. See the README for the command line.
"""

from eventvec.checkpoint import Run, load
from eventvec.config import build_method
from eventvec.dataset import Dataset
from eventvec.diagnosis import diagnose
from eventvec.embedding import embed
from eventvec.encoders import (
    ENCODERS,
    GRU,
    LSTM,
    EventEncoder,
    LanguageEncoder,
    PaperTransformer,
    Recurrent,
    SetEncoder,
    TemporalConvolution,
    TextEncoder,
    Transformer,
)
from eventvec.errors import CheckpointError, ConfigError, DataError, EventvecError
from eventvec.evaluation import evaluate, join_labels
from eventvec.losses.negatives import HardNegatives
from eventvec.methods import (
    CPC,
    METHODS,
    RTD,
    CoLES,
    CReSP,
    CrossOrder,
    ExpCLR,
    MaskedLanguage,
    Order,
    Siamese,
    SlicePairs,
    Supervised,
    TargetedCReSP,
    TPPEmbedding,
    entity_contrastive,
    fclr,
    nsp,
    ocp,
    ocp_biased,
    pcl,
    sop,
)
from eventvec.prediction import predict
from eventvec.schema import Schema
from eventvec.sequences import Sequences, join, searchsorted, stack
from eventvec.tables import Fitting, attach, read, read_embeddings, until, write
from eventvec.training.loop import Result, fit
from eventvec.updating.batches import update
from eventvec.updating.store import forget
from eventvec.views import RandomSlices, RejectionSlices, as_of
from eventvec.views.pairs import BiasedOrderPairs, EntityPairs, NextPairs, OrderPairs, PermutationPairs, SwappedPairs

__all__ = [
    "CPC",
    "ENCODERS",
    "GRU",
    "LSTM",
    "METHODS",
    "RTD",
    "BiasedOrderPairs",
    "CReSP",
    "CheckpointError",
    "CoLES",
    "ConfigError",
    "CrossOrder",
    "DataError",
    "Dataset",
    "EntityPairs",
    "EventEncoder",
    "EventvecError",
    "ExpCLR",
    "Fitting",
    "HardNegatives",
    "LanguageEncoder",
    "MaskedLanguage",
    "NextPairs",
    "Order",
    "OrderPairs",
    "PaperTransformer",
    "PermutationPairs",
    "RandomSlices",
    "Recurrent",
    "RejectionSlices",
    "Result",
    "Run",
    "Schema",
    "Sequences",
    "SetEncoder",
    "Siamese",
    "SlicePairs",
    "Supervised",
    "SwappedPairs",
    "TPPEmbedding",
    "TargetedCReSP",
    "TemporalConvolution",
    "TextEncoder",
    "Transformer",
    "as_of",
    "attach",
    "build_method",
    "diagnose",
    "embed",
    "entity_contrastive",
    "evaluate",
    "fclr",
    "fit",
    "forget",
    "join",
    "join_labels",
    "load",
    "nsp",
    "ocp",
    "ocp_biased",
    "pcl",
    "predict",
    "read",
    "read_embeddings",
    "searchsorted",
    "sop",
    "stack",
    "until",
    "update",
    "write",
]
