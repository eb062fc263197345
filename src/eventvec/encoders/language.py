"""A language model reads events: the tokens of each event's text and one temporal vector; and descriptions beside them.

Weights come from a local folder or an installed package, never from the network, and only from safetensors.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from eventvec.dataset import static_values
from eventvec.encoders.backbones import BLOCK, backbone_folder, pretrained
from eventvec.errors import CheckpointError, ConfigError, DataError, nearest, need
from eventvec.schema import Schema
from eventvec.sequences import Sequences
from eventvec.texts import strings

Pooling = Literal["mean", "max", "last"]
Hidden = Literal["all", "time", "time_and_type"]
POOLED = "mean, max or last of all, time or time_and_type"
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj", "query", "key", "value", "attention.output.dense")
"""Projections of attention that get an adapter: as Llama and its kin call them, then as BERT does."""
TIME = -1
"""Where a row of tokens has a temporal vector."""


class LanguageEncoder(nn.Module):
    """A pre-trained language model over event texts and times, pooled (Liu and Quan 2024, TPP-Embedding).

    Each event becomes the token embeddings of its text, without special tokens, and behind them one temporal vector,
    a sinusoid of the time since the row's first event. The events of a row follow one another as the model's input
    embeddings, and the last hidden states are pooled. Codes for missing and unknown read as these words. The token
    table is never trained. An empty row gives zeros.

    Relations: the other encoders learn what a code means from the events; this one knows it from the text. `text_tower`
    embeds descriptions with the same weights.

    Args:
        backbone: a folder in the layout of Hugging Face, with `config.json`, the tokenizer and safetensors; the name
            of one in the folder that EVENTVEC_MODELS names; or an installed package that brings one. A folder is kept
            with its whole path, so that a run finds it wherever it is loaded from.
        schema: holds the texts: the vocabulary of the categorical column `text`.
        text: that column.
        unit: what times are counted in: seconds where they are timestamps or dates, else their own unit.
        pooling: of hidden states: their mean, their maximum, or the last one.
        hidden: which hidden states are pooled: all, those of temporal vectors, or these and each text's last token's.
        lora: rank of the adapters on the attention's projections, scaled by 1, with dropout 0.05 (Hu et al. 2021); the
            backbone itself is then not trained, nor saved. 0 trains all of it but the token table.
        longest: tokens of a row that are read at most, its latest whole events, and of a description, its first; as
            many as the backbone has positions if not given.

    Raises:
        ConfigError: there is no such backbone or column, or the numbers do not go together.

    Example:
        >>> import eventvec as ev
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
        unit: float = 1.0,
        pooling: Pooling = "mean",
        hidden: Hidden = "all",
        lora: int = 16,
        longest: int | None = None,
    ) -> None:
        super().__init__()
        texts = {column.name: column.values for column in schema.categorical}
        if text not in texts:
            raise ConfigError(f"text {text!r} is no categorical column of the events; {nearest(text, texts)}")
        if not 0 < unit < math.inf or lora < 0:
            raise ConfigError(f"unit {unit}, lora {lora}: the unit must be above 0 and finite, the rank at least 0")
        if pooling not in ("mean", "max", "last") or hidden not in ("all", "time", "time_and_type"):
            raise ConfigError(f"pooling {pooling!r}, hidden {hidden!r}: accepted are {POOLED}")
        folder = backbone_folder(backbone)
        self.backbone = str(folder.absolute()) if folder == Path(backbone) else backbone
        self.schema, self.text, self.unit = schema, text, unit
        self.pooling, self.hidden, self.lora, self.longest = pooling, hidden, lora, longest
        self.tick = unit * 1e6 if schema.clock else unit
        self.model, tokenizer = pretrained(folder)
        self.dim = int(self.model.config.hidden_size)
        positions = int(self.model.config.max_position_embeddings)
        if longest is not None and not 2 <= longest <= positions:
            raise ConfigError(f"longest is {longest}; with this backbone it must be from 2 to {positions}")
        self.limit = longest or positions
        _train_part(self.model, lora)
        self.origin = _freeze(self.model)
        self.texts = ("missing", "unknown", *texts[text])
        self._tokenize(tokenizer)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row of events."""
        return self.read(self.tokens(x)) if x.total else torch.zeros(len(x), self.dim, device=x.device)

    def text_tower(self, column: str) -> TextTower:
        """Return the encoder of the descriptions in a static column; it shares all weights with this one."""
        return TextTower(self, column)

    def tokens(self, x: Sequences) -> Sequences:
        """Return rows of tokens: each event's text and then its time, `TIME` with the time in units in `since`.

        The column `chosen` says which tokens are pooled.
        """
        since, x = self._recent(x)
        texts = self._words()[x.values(self.text).long()]  # a window per event onto the tokens of its text
        counts = texts.lengths + 1
        ends = counts.cumsum(0)  # behind each event's last token, which is the temporal one
        token = torch.full((texts.total + len(ends),), TIME, device=x.device)
        token[(ends - counts)[texts.rows()] + texts.steps()] = texts.values("token")
        chosen = torch.full_like(token, self.hidden == "all", dtype=torch.bool)
        chosen[ends - 1] = True
        if self.hidden == "time_and_type":
            chosen[ends - 2] = True
        columns = {"token": token, "since": torch.repeat_interleave(since, counts), "chosen": chosen}
        lengths = torch.zeros_like(x.lengths).index_add(0, x.rows(), counts)
        return Sequences(columns, lengths.cumsum(0) - lengths, lengths)

    def read(self, tokens: Sequences) -> Tensor:
        """Return `(n, dim)`: the backbone's last hidden states over rows of tokens, pooled; zeros where there are none.

        Without gradients, rows of like length are read together, in blocks, so that memory is bounded.
        """
        if torch.is_grad_enabled() or not tokens.total:
            return self._read(tokens)
        order = tokens.lengths.argsort(descending=True, stable=True)
        room = torch.arange(len(tokens)) // max(BLOCK // tokens.longest, 1)
        blocks = order.split(room.unique_consecutive(return_counts=True)[1].tolist())
        found = torch.cat([self._read(tokens[rows]) for rows in blocks])
        return torch.empty_like(found).index_copy(0, order, found)

    def get_extra_state(self) -> Tensor:
        """Return the tokenizer and what the frozen weights are known by, as UTF-8 bytes to save with the weights."""
        text = json.dumps({"tokenizer": self.tokenizer.to_str(), "backbone": self.origin})
        return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the tokenizer that `get_extra_state` gave.

        Raises:
            CheckpointError: the frozen weights are not those that the saved ones were trained with.
        """
        saved = json.loads(bytes(state.cpu().numpy()))
        if saved["backbone"] != self.origin:
            raise CheckpointError(
                f"the backbone {self.backbone!r} here is not the one that this run was trained with; put that one in "
                "its place"
            )
        self._tokenize(need("tokenizers", "text").Tokenizer.from_str(saved["tokenizer"]))

    def _tokenize(self, tokenizer: Any) -> None:
        """Keep the tokens of each text of the vocabulary, one behind the other."""
        self.tokenizer = tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        ids, lengths = self.encode(self.texts, special=False)
        device = self.model.get_input_embeddings().weight.device
        for name, values in (("ids", ids), ("lengths", lengths)):
            self.register_buffer(name, values.to(device), persistent=False)
        if int(lengths.min()) == 0 or int(lengths.max()) >= self.limit:
            raise ConfigError(
                f"texts of column {self.text!r} have {int(lengths.min())} to {int(lengths.max())} tokens; accepted are "
                f"1 to {self.limit - 1}, one fewer than `longest`"
            )
        self.tokenizer.enable_truncation(self.limit)

    def encode(self, texts: Sequence[str], special: bool = True) -> tuple[Tensor, Tensor]:
        """Return the tokens of all texts, one text's behind the other's, and `(n,)` how many each has.

        Args:
            texts: `n` of them.
            special: with the special tokens that the tokenizer adds, such as a start token.
        """
        found = [each.ids for each in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=special)]
        ids = np.fromiter(chain.from_iterable(found), np.int64)
        return torch.from_numpy(ids), torch.tensor([len(each) for each in found], dtype=torch.int64)

    def _words(self) -> Sequences:
        return Sequences({"token": self.ids}, self.lengths.cumsum(0) - self.lengths, self.lengths)

    def _recent(self, x: Sequences) -> tuple[Tensor, Sequences]:
        """Return each row's latest events that fit, and for each of them the time since the row's first, in units."""
        counts, rows = self.lengths[x.values(self.text).long()] + 1, x.rows()
        ends = torch.zeros_like(x.lengths).index_add(0, rows, counts).cumsum(0)
        left = ends[rows] - (counts.cumsum(0) - counts)  # tokens from each event on to its row's end
        seen = torch.zeros_like(x.lengths).index_add(0, rows, (left <= self.limit).long())
        time = x.values("time")
        first = time[(x.lengths.cumsum(0) - x.lengths).clamp(max=len(time) - 1)]
        recent = x.slice(torch.arange(len(x), device=x.device), x.lengths - seen, seen)
        since = (recent.values("time") - first[recent.rows()]).double() / self.tick
        return since.float(), recent

    def _read(self, tokens: Sequences) -> Tensor:
        if not tokens.total:
            return torch.zeros(len(tokens), self.dim, device=tokens.device)
        there = tokens.mask()
        there[:, 0] = True  # attention over nothing is no number; such a row has nothing chosen
        inputs = tokens.pad(self.inputs(tokens))
        states = self.model(inputs_embeds=inputs, attention_mask=there.long()).last_hidden_state
        return pool(states.float(), tokens.pad(tokens.values("chosen")), self.pooling)

    @torch.no_grad()
    def inputs(self, tokens: Sequences) -> Tensor:
        """Return `(total, dim)` input embeddings: the table's rows, and sinusoids in the place of times."""
        token = tokens.values("token")
        words: Tensor = self.model.get_input_embeddings()(token.clamp(min=0))
        times = sinusoid(tokens.values("since"), self.dim).to(words.dtype)
        return torch.where((token == TIME).unsqueeze(1), times, words)


class TextTower(nn.Module):
    """The encoder of descriptions: the same backbone and pooling as for events, special tokens included.

    A row without a description gives zeros.

    Args:
        language: whose weights it shares.
        column: static column of texts, nested `Sequences` with a column `bytes` of UTF-8.
    """

    def __init__(self, language: LanguageEncoder, column: str) -> None:
        super().__init__()
        self.language, self.column, self.dim = language, column, language.dim
        self.train(language.training)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row's description.

        Raises:
            DataError: the rows have no such static column, or it holds no texts.
        """
        texts = static_values(x, self.column)
        if not isinstance(texts, Sequences):
            raise DataError(f"static column {self.column!r} of the data holds no texts; a description is one")
        ids, counts = self.language.encode(strings(texts))
        ids, counts = ids.to(x.device), counts.to(x.device)
        whole = {"since": torch.zeros_like(ids), "chosen": torch.ones_like(ids, dtype=torch.bool)}
        return self.language.read(
            Sequences({"token": ids, **whole}, counts.cumsum(0) - counts, counts * (texts.lengths > 0))
        )


def sinusoid(time: Tensor, dim: int) -> Tensor:
    """Return `(total, dim)` sines (even places) and cosines (odd places) of times, in float32.

    Component i is the sine or cosine of ``t / 10000^(2⌊i/2⌋/dim)`` (Zuo et al. 2020, Equation 2; Liu and Quan 2024).

    Example:
        >>> sinusoid(torch.tensor([0.0, torch.pi / 2]), 4)[:, 0].tolist()
        [0.0, 1.0]
    """
    even = torch.arange(0, dim, 2, device=time.device)
    angles = time.float().unsqueeze(1) / 10_000 ** (even / dim)
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)[:, :dim]


def pool(states: Tensor, chosen: Tensor, how: Pooling) -> Tensor:
    """Return `(n, d)`: the mean, maximum or last of the chosen states `(n, longest, d)`; zeros where none is.

    Example:
        >>> states = torch.tensor([[[1.0], [5.0], [9.0]]])
        >>> chosen = torch.tensor([[True, True, False]])
        >>> [pool(states, chosen, how).item() for how in ("mean", "max", "last")]
        [3.0, 5.0, 5.0]
    """
    inside = chosen.unsqueeze(2)
    if how == "mean":
        return (states * inside).sum(1) / inside.sum(1).clamp(min=1)
    if how == "max":
        return states.masked_fill(~inside, -torch.inf).amax(1).masked_fill(~inside.any(1), 0)
    last = (chosen * torch.arange(1, chosen.shape[1] + 1, device=chosen.device)).argmax(1)
    return (states * inside)[torch.arange(len(last), device=last.device), last]


def _train_part(model: nn.Module, lora: int) -> None:
    """Mark what is trained: adapters of that rank, put in now, or with rank 0 everything but the token table."""
    if lora:
        peft = need("peft", "text")
        settings = peft.LoraConfig(r=lora, lora_alpha=lora, lora_dropout=0.05, target_modules=list(ATTENTION))
        try:
            peft.inject_adapter_in_model(settings, model)
        except ValueError as error:
            raise ConfigError(f"lora {lora}: this backbone has none of the layers {', '.join(ATTENTION)}") from error
    else:
        model.get_input_embeddings().requires_grad_(False)  # type: ignore[operator]


def _freeze(model: nn.Module) -> str:
    """Make what is not trained a buffer that is not saved, and return what it is known by.

    So an optimiser never sees it, and a run holds what was trained only. The mark is a hash of all these weights.
    """
    digest = hashlib.blake2b(digest_size=16)
    for module in model.modules():
        for name, values in list(module.named_parameters(recurse=False)):
            if not values.requires_grad:
                delattr(module, name)
                module.register_buffer(name, values.detach(), persistent=False)
                digest.update(values.detach().flatten().numpy().data)
    return digest.hexdigest()
