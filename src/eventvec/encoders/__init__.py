"""Encoders: modules that turn rows of events into one vector per row.

::

    interface      the protocols `Encoder` and `EventEncoding`
    recurrent      GRU, LSTM                        transformer  with positions, and the CoLES paper's without
    sets           sets of events or points         convolution  dilated convolutions
    language       a language model over texts of event types and times
    sentences      a pre-trained model over single texts, frozen or adapted
    text           a BERT over free texts           backbones    where pre-trained models are found
    aggregates     the aggregates of the CoLES paper, an encoder without parameters
    handcrafted    features of timing, numbers and categories, an encoder without parameters
    running        those of them that continue exactly from a stored state
    codes          codes, pairs of codes and codes with numbers, as directions of a matrix of terms
    convolutions   random convolutions over the latest events
    compressed     features on one scale, and their principal components
    joined         the vectors of several encoders side by side
    event_encoder  columns of a table to one vector per event
    static_inputs  static columns to one vector per row, beside the embedding
    points         points (x, y) to one vector each
    residual       ResNet-18 for series
    at_places      representations of points that depend on x*: cross-attention, kernel mean
    segments       which of two joined rows an event is from
    heads          multi-layer perceptrons, projection heads, and heads that read a context and x*
    sinusoidal     harmonics of covariates
"""

from collections.abc import Callable
from typing import Any

from eventvec.encoders.aggregates import Aggregates
from eventvec.encoders.at_places import CrossAttention, KernelMean
from eventvec.encoders.codes import Codes
from eventvec.encoders.compressed import Compressed
from eventvec.encoders.convolution import TemporalConvolution
from eventvec.encoders.convolutions import Convolutions
from eventvec.encoders.event_encoder import EventEncoder
from eventvec.encoders.handcrafted import Handcrafted
from eventvec.encoders.heads import GatedHead, PlainHead, SigmoidHead
from eventvec.encoders.interface import Encoder, EventEncoding
from eventvec.encoders.joined import Joined
from eventvec.encoders.language import LanguageEncoder
from eventvec.encoders.points import Numbers, PointEncoder
from eventvec.encoders.recurrent import GRU, LSTM, Recurrent
from eventvec.encoders.residual import ResidualNetwork
from eventvec.encoders.running import RunningHandcrafted
from eventvec.encoders.segments import Segmented
from eventvec.encoders.sentences import SentenceEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.encoders.sinusoidal import Harmonics
from eventvec.encoders.text import TextEncoder
from eventvec.encoders.transformer import PaperTransformer, Transformer

ENCODERS: dict[str, Callable[..., Any]] = {
    "cross_attention": CrossAttention,
    "gru": GRU,
    "kernel_mean": KernelMean,
    "language": LanguageEncoder,
    "lstm": LSTM,
    "resnet": ResidualNetwork,
    "set": SetEncoder,
    "tcn": TemporalConvolution,
    "text": TextEncoder,
    "transformer": Transformer,
    "transformer_paper": PaperTransformer,
}
"""The encoders by their names in a configuration."""

EVENT_ENCODERS: dict[str, Callable[..., Any]] = {
    "events": EventEncoder,
    "segmented": Segmented,
    "pairs": PointEncoder,
    "numbers": Numbers,
}
"""The event encoders by their names in a configuration."""

__all__ = [
    "ENCODERS",
    "EVENT_ENCODERS",
    "GRU",
    "LSTM",
    "Aggregates",
    "Codes",
    "Compressed",
    "Convolutions",
    "CrossAttention",
    "Encoder",
    "EventEncoder",
    "EventEncoding",
    "GatedHead",
    "Handcrafted",
    "Harmonics",
    "Joined",
    "KernelMean",
    "LanguageEncoder",
    "Numbers",
    "PaperTransformer",
    "PlainHead",
    "PointEncoder",
    "Recurrent",
    "ResidualNetwork",
    "RunningHandcrafted",
    "Segmented",
    "SentenceEncoder",
    "SetEncoder",
    "SigmoidHead",
    "TemporalConvolution",
    "TextEncoder",
    "Transformer",
]
