"""The benchmark of bfloat16 runs where a CPU has it, and says so where it has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import precision


@pytest.mark.usefixtures("bfloat16_everywhere")
def test_steps_and_embedding_are_timed_in_both_precisions(
    small: Callable[..., list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda: True)
    rows = small("precision", "--encoder", "gru", "transformer")
    assert [(row["encoder"], row["what"]) for row in rows] == [
        ("gru", "training"), ("gru", "embedding"), ("transformer", "training"), ("transformer", "embedding"),
    ]  # fmt: skip
    assert all(row["ratio"] == pytest.approx(row["float32, ms"] / row["bfloat16, ms"]) for row in rows)  # of one round


def test_a_cpu_without_bfloat16_is_refused(
    small: Callable[..., list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda: False)
    with pytest.raises(SystemExit):
        small("precision")
    assert "this CPU has no instructions for bfloat16" in capsys.readouterr().err
