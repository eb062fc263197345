"""Two minutes of fuzzing, some for each kind of case; `python tests/fuzz/run.py --minutes 60` runs longer."""

from __future__ import annotations

import kills
import pytest
import run


@pytest.mark.slow
@pytest.mark.parametrize("kind", run.KINDS)
def test_no_case_breaks_a_law(kind: str) -> None:
    tally = run.fuzz([kind], seed=0, seconds=60 if kind == "commands" else 15)
    assert tally.counts[kind, "accepted"] > 0
    assert not tally.defects, "\n" + tally.render(0)


def test_a_case_depends_on_its_number_only() -> None:
    cases = range(8)
    assert [run.play("tables", 0, case)[0] for case in cases] == [
        run.play("tables", 0, case)[0] for case in reversed(cases)
    ][::-1]


@pytest.mark.slow
def test_killed_commands_leave_no_half_written_file_and_complete_at_the_second_call() -> None:
    lines, broken = kills.kills(count=3)
    assert not broken, "\n".join([*lines, *broken])
