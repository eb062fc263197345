"""A language model over the texts and times of events, and over descriptions of entities.

Weights are loaded from a local folder or an installed package, never from the network, and only from safetensors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import pyarrow as pa
import torch
from torch import Tensor, nn

from eventvec import distributed
from eventvec.dataset import event_lines, static_texts, strings
from eventvec.encoders import backbones
from eventvec.encoders.backbones import DType, Pooling
from eventvec.errors import ConfigError, nearest
from eventvec.options import one_of
from eventvec.schema import Schema, check_schema
from eventvec.sequences import Sequences, keep_copy, on_host, places, read_together, with_copy

Hidden = Literal["all", "time", "time_and_type"]
Reads = Literal["all", "text", "time", "serialised"]
First = Literal["text", "time"]
Temporal = Literal["sinusoidal", "linear"]
ACCEPTED: Mapping[str, tuple[str, ...]] = {
    "hidden": get_args(Hidden),
    "reads": get_args(Reads),
    "first": get_args(First),
    "temporal": get_args(Temporal),
    "dtype": get_args(DType),
}
"""The words that some options accept."""
TIME = -1
"""The token number that stands for a temporal vector."""


class LanguageEncoder(nn.Module):
    """A pre-trained language model over event texts and times, pooled (Liu and Quan 2024, TPP-Embedding, Section 4.1).

    Each event becomes the token embeddings of its text, without special tokens, followed by one temporal vector, a
    sinusoid of the time since the row's first event. The events of a row are concatenated into the model's input
    embeddings, and the last hidden states are pooled. Missing and unknown codes are read as the words "missing" and
    "unknown". The token table is never trained. An empty row gives zeros.

    The defaults are the paper's; `reads` and `hidden` are its ablations (Tables 8 and 9), `serialised` is its baseline.
    `first` and `temporal` are options of the public code, which with the time first takes the states of the last word
    for those of the time; here `hidden` selects the same tokens in either order. The angle of the sinusoid is a
    float64, so times far from the start remain different.

    Args:
        backbone: A folder in the layout of Hugging Face, the name of one in the folder that EVENTVEC_MODELS names, or
            an installed package that contains one. It has `config.json`, the tokenizer and safetensors.
        schema: Contains the texts, which are the vocabulary of the categorical column `text`.
        text: Name of the categorical column with the texts of events.
        unit: Unit of time for the temporal vectors, in seconds or in the column's unit; wavelengths are from 6 to
            nearly 63,000 units. `auto` takes the middle quantile of the schema's intervals above 0, so
            neighbouring events are about one unit apart.
        pooling: `mean`, `max`, `last` or `first`. `auto` takes the pooling of a sentence-transformers folder, where
            `first` is called `cls`, and otherwise the mean. The prompt of such a folder is put before descriptions.
        hidden: Which hidden states are pooled: `all`; `time`, those of temporal vectors; or `time_and_type`, these and
            those of each text's last token.
        lora: Rank of the adapters on the attention's projections, scaled by 1, with dropout 0.05 (Hu et al. 2021); the
            backbone is then neither trained nor saved. With 0, all weights except the token table are trained.
        longest: Maximum number of tokens that are read: the latest whole events of a row, the first tokens of a
            description or of a serialised row; the backbone's number of positions if not given.
        reads: `all` of each event, only its `text` or its `time`; or `serialised`: the row is one text with a line such
            as `0.57,Good Answer` for each event, its time since the first in units and its text. Except with `all`,
            `hidden` must be `all`; with `serialised`, `first` and `temporal` must be the defaults.
        first: Which of the two comes first in an event, `text` or `time`.
        temporal: How times become vectors: `sinusoidal`, or `linear`, a trained affine map of the time.
        dtype: Precision of the backbone's weights, which are then not trained: `float32`; `bfloat16`; or `4bit`, in
            which the paper holds them (NF4 with double quantisation, needs a GPU and `eventvec[text-quant]`).

    Raises:
        ConfigError: If there is no such backbone or column, or an option is out of range.

    Example:
        >>> encoder = LanguageEncoder("stories15M", schema, text="badge", unit=86_400, lora=8)  # doctest: +SKIP
        >>> encoder.dim, encoder(data.sequences).shape  # doctest: +SKIP
        (288, torch.Size([3780, 288]))
    """

    ids: Tensor
    lengths: Tensor

    def __init__(
        self,
        backbone: str,
        schema: Schema,
        text: str,
        unit: float | Literal["auto"] = "auto",
        pooling: Pooling | Literal["auto"] = "auto",
        hidden: Hidden = "all",
        lora: int = 16,
        longest: int | None = None,
        reads: Reads = "all",
        first: First = "text",
        temporal: Temporal = "sinusoidal",
        dtype: DType = "float32",
    ) -> None:
        super().__init__()
        check_schema(schema)
        texts = {column.name: column.values for column in schema.categorical}
        if text not in texts:
            raise ConfigError(f"text {text!r} is not a categorical column of the events; {nearest(text, texts)}")
        if any(column.name == text and column.buckets for column in schema.categorical):
            raise ConfigError(f"text {text!r} is hashed, and its texts are unknown; list it as categorical")
        if unit != "auto" and not (isinstance(unit, int | float) and 0 < unit < math.inf):
            raise ConfigError(f"unit must be a number above 0 and finite, or auto, got {unit!r}")
        self.hidden, self.reads, self.first, self.temporal, self.dtype = hidden, reads, first, temporal, dtype
        one_of("pooling", pooling, ("auto", *get_args(Pooling)))
        for option, accepted in ACCEPTED.items():
            one_of(option, getattr(self, option), accepted)
        fixed = {"hidden": "all"} if reads != "all" else {}
        fixed |= {"first": "text", "temporal": "sinusoidal"} if reads == "serialised" else {}
        for option, required in fixed.items():
            if (got := getattr(self, option)) != required:
                raise ConfigError(
                    f"{option} must be {required} where reads is {reads}, got {got}: it needs both tokens of texts and "
                    "temporal vectors"
                )
        if dtype != "float32" and not lora:
            raise ConfigError(f"lora must be at least 1 where dtype is {dtype}, got 0: such weights cannot be trained")
        folder, self.backbone = backbones.located(backbone)
        self.pooling: Pooling = (backbones.folder_pooling(folder) or "mean") if pooling == "auto" else pooling
        self.prompt = backbones.folder_prompt(folder)
        self.schema, self.text, self.lora, self.longest = schema, text, lora, longest
        self.unit = _typical_interval(schema) if unit == "auto" else unit
        self.tick = self.unit * 1e6 if schema.clock else self.unit
        self.model, tokenizer = backbones.pretrained(folder, dtype)
        self.dim = int(self.model.config.hidden_size)
        positions = backbones.position_count(self.model)
        if longest is not None and not 2 <= longest <= positions:
            raise ConfigError(f"longest must be from 2 to {positions} with this backbone, got {longest}")
        self.limit = longest or positions
        backbones.select_trained(self.model, lora)
        self.origin = backbones.freeze(self.model)
        if dtype == "4bit":
            self.origin = backbones.file_hash(folder)
        device = self.model.get_input_embeddings().weight.device
        self.linear = nn.Linear(1, self.dim, device=device) if temporal == "linear" else None
        self.texts = ("missing", "unknown", *texts[text])
        self._tokenize(tokenizer)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row of events."""
        return self.read(self.tokens(x)) if x.total else torch.zeros(len(x), self.dim, device=x.device)

    def text_tower(self, column: str) -> TextTower:
        """Return an encoder of the descriptions in a static column that shares all weights with this one."""
        return TextTower(self, column)

    def tokens(self, x: Sequences) -> Sequences:
        """Return rows of tokens: those of each event's text and `TIME`, in the order and choice of the options.

        The column `since` holds the time since the row's first event, in units, float64, and 0 in serialised rows;
        `chosen` marks the tokens whose hidden states are pooled. The static rows `times` are as long as a row has
        tokens `TIME`.
        """
        if self.reads == "serialised":
            return self.text_tokens(self.lines(x), is_filled(x))
        recent, lengths = self._recent(x)
        words = Sequences({"token": self.ids}, self.lengths.cumsum(0) - self.lengths, self.lengths)
        texts = words[recent.values(self.text).long()]  # a window per event onto the tokens of its text
        counts, size = texts.lengths + (self.reads != "text"), int(on_host(lengths).sum())
        event = torch.arange(len(texts), device=x.device).repeat_interleave(counts, output_size=size)
        step = torch.arange(size, device=x.device) - (counts.cumsum(0) - counts)[event]
        step -= int(self.first == "time" and self.reads == "all")  # the place in the event's text
        is_text = (step >= 0) & (step < texts.lengths[event])
        place = torch.where(is_text, texts.starts[event] + step, len(self.ids))
        token = torch.cat([self.ids, self.ids.new_full((1,), TIME)])[place]
        chosen = ~is_text | (self.hidden == "all")
        if self.hidden == "time_and_type":
            chosen |= step == texts.lengths[event] - 1
        columns = {"token": token, "since": self._since(x, recent)[event], "chosen": chosen}
        times = _no_times(len(x), x.device) if self.reads == "text" else replace(recent, columns={}, static={})
        return Sequences(columns, lengths.cumsum(0) - lengths, lengths, {"times": times})

    def lines(self, x: Sequences) -> list[str]:
        """Return rows as texts, which `serialised` reads: a line of time since the first and text for each event."""
        codes = pa.array(x.values(self.text).cpu().numpy())
        return event_lines(self._since(x, x).cpu().numpy(), pa.array(self.texts).take(codes), x.lengths.cpu().numpy())

    def text_tokens(self, texts: Sequence[str], present: Tensor) -> Sequences:
        """Return rows of the tokens of texts, with special tokens and the columns of `tokens`, all chosen.

        Rows that are not `present`, `(n,)` bool on the device of the rows, have no tokens.
        """
        ids, counts = (with_copy(values, present.device) for values in self.encode(texts))
        columns = {"token": ids, "since": torch.zeros_like(ids).double(), "chosen": torch.ones_like(ids).bool()}
        lengths = keep_copy(counts * present, torch.mul, counts, present)
        static = {"times": _no_times(len(counts), present.device)}
        return Sequences(columns, counts.cumsum(0) - counts, lengths, static)

    def read(self, tokens: Sequences) -> Tensor:
        """Return `(n, dim)`, the pooled last hidden states of rows of tokens; zeros for rows without tokens.

        Without gradients, rows of similar length are read in blocks, so memory is bounded.
        """
        if torch.is_grad_enabled() or not tokens.total:
            return self._read(tokens)
        return backbones.in_blocks(tokens, self._read)

    def get_extra_state(self) -> Tensor:
        """Return the tokenizer, the hash of the frozen weights and the prompt, as UTF-8 bytes."""
        text = json.dumps({"tokenizer": self.tokenizer.to_str(), "backbone": self.origin, "prompt": self.prompt})
        return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the tokenizer from the result of `get_extra_state`; refuse the weights of another backbone."""
        saved = json.loads(bytes(state.cpu().numpy()))
        if saved["backbone"] != self.origin:
            raise backbones.other_backbone(self.backbone)
        self.prompt = saved["prompt"]
        self._tokenize(backbones.stored_tokenizer(saved["tokenizer"]))

    def _tokenize(self, tokenizer: Any) -> None:
        """Store the tokens of the vocabulary's texts, concatenated; none where these are not read one by one."""
        self.tokenizer = tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        ids, lengths = self.encode(self.texts, special=False)
        device = self.model.get_input_embeddings().weight.device
        most = self.limit - (self.reads == "all")
        if self.reads in ("time", "serialised"):
            ids, lengths = ids[:0], torch.zeros_like(lengths)
        elif int(lengths.min()) == 0 or int(lengths.max()) > most:
            raise ConfigError(
                f"texts of column {self.text!r} have {int(lengths.min())} to {int(lengths.max())} tokens; accepted: "
                f"1 to {most}" + ", one less than `longest`" * (most < self.limit)
            )
        for name, values in (("ids", ids), ("lengths", lengths)):
            self.register_buffer(name, values.to(device), persistent=False)
        self.tokenizer.enable_truncation(self.limit)

    def encode(self, texts: Sequence[str], special: bool = True) -> tuple[Tensor, Tensor]:
        """Return the tokens of all texts, concatenated, and `(n,)` the number of tokens of each."""
        return backbones.encoded(self.tokenizer, texts, special)

    def _recent(self, x: Sequences) -> tuple[Sequences, Tensor]:
        """Return the latest events of each row that fit, and `(n,)` how many tokens they have."""
        counts, rows = self.lengths[x.values(self.text).long()] + (self.reads != "text"), x.rows()
        ends = torch.zeros_like(x.lengths).index_add(0, rows, counts).cumsum(0)
        remaining = ends[rows] - (counts.cumsum(0) - counts)  # tokens from each event to the end of its row
        fits = remaining <= self.limit
        none = torch.zeros_like(x.lengths)
        lengths, tokens = (none.index_add(0, rows, numbers) for numbers in (fits.long(), counts * fits))
        read_together(lengths, tokens)
        return x.slice(torch.arange(len(x), device=x.device), x.lengths - lengths, lengths), tokens

    def _since(self, x: Sequences, recent: Sequences) -> Tensor:
        """Return the times of the recent events of rows since the first events of the whole rows, in units, float64."""
        time = x.values("time")
        first = time[(x.lengths.cumsum(0) - x.lengths).clamp(max=len(time) - 1)]
        return (recent.values("time") - first[recent.rows()]).double() / self.tick

    def _read(self, tokens: Sequences) -> Tensor:
        if not tokens.total:
            return torch.zeros(len(tokens), self.dim, device=tokens.device)
        mask = tokens.mask()
        mask[:, 0] = True  # attention over no tokens would give NaN; nothing is pooled in such a row
        inputs = tokens.pad(self.inputs(tokens))
        states = self.model(inputs_embeds=inputs, attention_mask=mask.long()).last_hidden_state
        return backbones.pool(states.float(), tokens.pad(tokens.values("chosen")), self.pooling)

    def inputs(self, tokens: Sequences) -> Tensor:
        """Return `(total, dim)` input embeddings: those of the token table, and temporal vectors for `TIME`."""
        token = tokens.values("token")
        with torch.no_grad():  # the table is never trained
            words: Tensor = self.model.get_input_embeddings()(token.clamp(min=0))
        times = tokens.static["times"]
        assert isinstance(times, Sequences)
        index = places(token == TIME, times.total)
        vectors = self._temporal_vectors(tokens.values("since")[index])
        return words.index_copy(0, index, vectors.to(words.dtype))

    def _temporal_vectors(self, since: Tensor) -> Tensor:
        """Return `(total, dim)` the temporal vectors of times in units, float32."""
        if self.linear is None:
            return sinusoid(since, self.dim)
        with torch.autocast(since.device.type, enabled=False):
            vectors: Tensor = self.linear(since.float().unsqueeze(1))
        return vectors


class TextTower(nn.Module):
    """An encoder of the descriptions in a static column, with the weights of a `LanguageEncoder`; zeros without one."""

    def __init__(self, language: LanguageEncoder, column: str) -> None:
        super().__init__()
        self.language, self.column, self.dim = language, column, language.dim
        self.train(language.training)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row's description."""
        texts = static_texts(x, self.column)
        queries = [self.language.prompt + text for text in strings(texts)]
        return distributed.share(self.language.read, self.language.text_tokens(queries, is_filled(texts)))


def is_filled(x: Sequences) -> Tensor:
    """Return `(n,)` bool: the rows with events, known on the CPU if the lengths are."""
    return keep_copy(x.lengths > 0, lambda copy: copy > 0, x.lengths)


def _no_times(n: int, device: torch.device) -> Sequences:
    """Return the static rows `times` of rows without temporal vectors."""
    lengths = with_copy(torch.zeros(n, dtype=torch.int64), device)
    return Sequences({}, lengths, lengths)


def sinusoid(time: Tensor, dim: int) -> Tensor:
    """Return `(total, dim)` sines (even components) and cosines (odd components) of times, in float32.

    Component i is the sine or cosine of ``t / 10000^(2⌊i/2⌋/dim)`` (Zuo et al. 2020, Equation 2; Liu and Quan 2024).
    The angle is a float64, because float32 has no fractions above 2^24.
    """
    even = torch.arange(0, dim, 2, device=time.device, dtype=torch.float64)
    angles = time.double().unsqueeze(1) / 10_000 ** (even / dim)
    return torch.stack([angles.sin().float(), angles.cos().float()], 2).flatten(1)[:, :dim]


def _typical_interval(schema: Schema) -> float:
    """Return the middle one of the schema's quantiles of intervals above 0, in their unit; 1 if there are none."""
    intervals = [edge for edge in schema.gap.edges if edge > 0]
    return intervals[len(intervals) // 2] if intervals else 1.0
