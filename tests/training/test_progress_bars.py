"""Progress bars move on a terminal, and print nothing elsewhere."""

from __future__ import annotations

import pytest

from eventvec.training.progress_bars import bar, of_training

RECORD = {"share": 0.5, "epoch": 3, "loss": 0.25, "events_per_second": 9000}


def test_nothing_is_printed_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("training") as tick:
        of_training(tick)(RECORD)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_the_epoch_and_the_loss(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    for shown in (True, False):
        with bar("training", shown) as tick:
            of_training(tick)(RECORD)
        printed = capsys.readouterr().err
        assert ("epoch 3 · loss 0.25 · 9,000 events/s" in printed) is shown
