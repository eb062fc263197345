"""The law of pages finds each payload that is not escaped, and none that is."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pages_law
import pytest
from outcomes import Broken

PAGE = '<html><title>{0}</title><main><h1 title="{0}">{0}</h1><script id="data">{1}</script></main></html>'
NODES = [payload for payload in pages_law.PAYLOADS if "<" in payload or '" on' in payload]
"""The payloads that are nodes or attributes in one of the places of the page."""


def page(folder: Path, text: str, data: str) -> Path:
    path = folder / "page.html"
    path.write_text(PAGE.format(text, data), "utf-8")
    return path


@pytest.mark.parametrize("payload", pages_law.PAYLOADS)
def test_an_escaped_payload_is_no_node(tmp_path: Path, payload: str) -> None:
    data = json.dumps({"title": payload}).replace("<", "\\u003c")
    pages_law.check_page(page(tmp_path, html.escape(payload), data))


@pytest.mark.parametrize("payload", NODES)
def test_a_payload_that_is_not_escaped_breaks_the_law(tmp_path: Path, payload: str) -> None:
    with pytest.raises(Broken):
        pages_law.check_page(page(tmp_path, payload, "{}"))


@pytest.mark.parametrize("payload", [payload for payload in NODES if "<" in payload])
def test_data_with_a_tag_break_the_law(tmp_path: Path, payload: str) -> None:
    with pytest.raises(Broken):
        pages_law.check_page(page(tmp_path, "A title", json.dumps({"title": payload})))


def test_half_a_page_breaks_the_law(tmp_path: Path) -> None:
    path = page(tmp_path, "A title", "{}")
    path.write_text(path.read_text()[:-10])
    with pytest.raises(Broken, match="not whole"):
        pages_law.check_page(path)
