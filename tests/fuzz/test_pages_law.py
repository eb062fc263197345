"""The law of pages finds each payload that is not escaped, and none that is."""

from __future__ import annotations

import base64
import html
import zlib

import pages_law
import pytest
from outcomes import Broken

SCRIPTS = '<script type="text/plain" id="data">{}</script><script></script>'
NODES = [payload for payload in pages_law.PAYLOADS if "<" in payload or '" on' in payload]
"""The payloads that are elements or attributes in one of the places of a page."""


DATA = base64.b64encode(zlib.compress(b"{}")).decode()


def page(text: str, data: str = DATA) -> str:
    return f'<html><title>{text}</title><h1 title="{text}">{text}</h1>{SCRIPTS.format(data)}</html>'


@pytest.mark.parametrize("payload", pages_law.PAYLOADS)
def test_an_escaped_payload_is_no_element(payload: str) -> None:
    pages_law.check_page(page(html.escape(payload)))


@pytest.mark.parametrize("payload", NODES)
def test_a_payload_that_is_not_escaped_breaks_the_law(payload: str) -> None:
    with pytest.raises(Broken):
        pages_law.check_page(page(payload))


@pytest.mark.parametrize("payload", [payload for payload in NODES if "<" in payload])
def test_data_with_a_tag_break_the_law(payload: str) -> None:
    with pytest.raises(Broken):
        pages_law.check_page(page("A title", payload))


def test_another_script_breaks_the_law() -> None:
    with pytest.raises(Broken, match="other scripts"):
        pages_law.check_page(page("A title").replace("</html>", "<script></script></html>"))


def test_half_a_page_breaks_the_law() -> None:
    with pytest.raises(Broken, match="not whole"):
        pages_law.check_page(page("A title")[:-10])
