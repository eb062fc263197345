"""The table of commands and kinds of models in the documentation is what the commands do."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.models_and_commands import PAGE, cells, rendered, with_table


@pytest.mark.slow
def test_the_table_of_the_page_is_what_the_commands_do(tmp_path: Path) -> None:
    page = PAGE.read_text()
    assert with_table(page, rendered(cells(tmp_path))) == page
