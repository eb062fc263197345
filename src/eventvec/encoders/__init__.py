"""Encoders: modules that turn rows of events into one vector per row; `ENCODERS` names them."""

from collections.abc import Callable, Mapping
from typing import Any

from eventvec.encoders.convolution import TemporalConvolution
from eventvec.encoders.events import EventEncoder
from eventvec.encoders.language import LanguageEncoder
from eventvec.encoders.recurrent import GRU, LSTM, Recurrent
from eventvec.encoders.sets import SetEncoder
from eventvec.encoders.text import TextEncoder
from eventvec.encoders.transformer import PaperTransformer, Transformer

ENCODERS: Mapping[str, Callable[..., Any]] = {
    "gru": GRU,
    "language": LanguageEncoder,
    "lstm": LSTM,
    "set": SetEncoder,
    "tcn": TemporalConvolution,
    "text": TextEncoder,
    "transformer": Transformer,
    "transformer_paper": PaperTransformer,
}
"""One name per encoder, as a configuration names it."""

__all__ = [
    "ENCODERS",
    "GRU",
    "LSTM",
    "EventEncoder",
    "LanguageEncoder",
    "PaperTransformer",
    "Recurrent",
    "SetEncoder",
    "TemporalConvolution",
    "TextEncoder",
    "Transformer",
]
