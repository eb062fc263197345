"""The options of `update`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from eventvec.errors import ConfigError
from eventvec.options import at_least, one_of
from eventvec.tables.addresses import Tabular

Late = Literal["refuse", "drop", "recompute"]


@dataclass(frozen=True)
class UpdateOptions:
    """How a batch of new events is applied.

    Args:
        late: What becomes of events older than the last one that their entity's state has seen: `refuse` raises an
            error, `drop` leaves them out, `recompute` reads the whole histories of these entities. Events at exactly
            that time are not late: they follow those that the state has seen.
        history: For `recompute`, a table with all events that the store was ever given of the entities with late
            events, and no others; it may also contain the whole batch. Counts and times are checked.
        batch_id: The name of the batch, which then identifies it; without a name, its content does.
        keep: The number of last batches that can be given again; all by default.

    Raises:
        ConfigError: If an option is out of range, or `recompute` and `history` do not go together.
    """

    late: Late = "refuse"
    history: Tabular | None = None
    batch_id: str | None = None
    keep: int | None = None

    def __post_init__(self) -> None:
        one_of("late", self.late, get_args(Late))
        if (self.late == "recompute") != (self.history is not None):
            raise ConfigError(
                "late='recompute' and history= must be given together (--late recompute --history EVENTS)"
            )
        if self.batch_id == "":
            raise ConfigError("batch_id must not be empty; give the batch a name, or no batch_id")
        at_least("keep", self.keep, 1)
