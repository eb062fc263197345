"""Credentials in texts: what looks like an address, which may have a password, and literals that look like secrets.

A text that is no valid address may still hold a password. It is recognised by its form and refused without being shown,
where only a path or a name is expected.
"""

from __future__ import annotations

import re

LOGIN = re.compile(
    r"(?:^|(?<=[\s'\"=,;(<>\[{]))(?![A-Za-z]:[/\\])"
    r"((?:[A-Za-z][\w+.-]{0,50}:/{0,3}|postgres\w{0,9}//?){0,2}[^\s:/\\@'\"]{0,200}):(?!//)[^\s'\"]{0,300}@",
    re.IGNORECASE,
)
"""A name, a colon, a password and @, perhaps after a scheme; not a path that begins with the letter of a drive."""
CUT_LOGIN = re.compile(
    r"((?:[A-Za-z][\w+.-]{0,50}://|postgres\w{0,50}:/?)[^\s:/@'\"\[]{0,200}):(?!…@|\d{1,5}(?![\w…]))[^\s'\"]+",
    re.IGNORECASE,
)
"""The beginning of one whose end was cut off: what stands after the colon is no port."""
SETTING = re.compile(r"\b(\w{0,50}(?:pas+w?\w{0,50}|pwd|pw|secret)\s*=\s*)(?!…)('[^']*'|[^\s&'\",;)=]+)", re.IGNORECASE)
"""An entry such as `password=…`, as libpq and the options of an address have it."""
SERVER = re.compile(
    r"(?:^|[\s,;=('\"])(?:jdbc:)?(?:postgres\w*(?:[:+]|//|/[^\s/:@]*:\S*@)|psql:|(?:duckdb|delta):/)"
    r"|/postgres\w*:/",
    re.IGNORECASE,
)
SCHEME = re.compile(r"[A-Za-z][\w+.-]*:/{2}|^\s*[A-Za-z][\w+.-]+:/|^(?:duckdb|delta):", re.IGNORECASE)

LITERAL = re.compile(
    r"[eE]'(?:\\.|''|[^'\\])*'|'(?:''|[^'])*'|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*.*?\*/|\b\d[\d_.]{3,}", re.DOTALL
)
"""A text, a comment or a number in SQL."""
CLAUSE = re.compile(r"\b(?:select|from|where|and|or|on|when|then|else|having|by|join|as)\b", re.IGNORECASE)
SECRET_NAME = re.compile(
    r"pass(?:w|code|phrase|key|\b|_)|pwd|\bpw\b|secret|token|credential|(?:api|access|private)_?key|crypt|hmac|\bsalt|"
    r"bearer|\bpin\b|dblink",
    re.IGNORECASE,
)
"""What a column, a function or an entry is named whose value is likely to be a secret."""
DATE = re.compile(r"[\d\s:.,/TZ+-]*")
SHAPE = re.compile(
    r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d).{8,}|(?=.*[A-Za-z])(?=.*\d)(?=.*[!#$%^&*?~|@]).{6,}|"
    r"(?:.*[_./-])?(?=\w*[A-Za-z])(?=\w*\d)[A-Za-z\d+=]{16,}.*|[A-Za-z]{2,}_(?:live|test|pat)_.*|eyJ[\w-]{8,}.*|-----BEGIN.*",
    re.DOTALL,
)
"""A word with letters and digits in a mixture that words of a language do not have."""


def has_login(text: str) -> bool:
    """Return whether a text has, or may have, a name with a password, as an address of a server has.

    Example:
        >>> has_login("postgresql:ann:pw@db/shop#t"), has_login("ann:pw@db"), has_login("host=db password=pw")
        (True, True, True)
        >>> has_login("card"), has_login("%d/%m/%Y %H:%M"), has_login("C:/ann@home/a.parquet"), has_login("https://a.b")
        (False, False, False, False)
    """
    return any(pattern.search(text) for pattern in (LOGIN, SETTING, SERVER))


def is_address(text: str) -> bool:
    """Return whether a text looks like an address of any kind, well formed or not, and not like a path.

    Example:
        >>> is_address("s3://bucket/a.parquet"), is_address("delta:/a"), is_address("postgres//db")
        (True, True, True)
        >>> is_address("data/a b.parquet"), is_address("C:/a.parquet"), is_address("a:b.parquet")
        (False, False, False)
    """
    return has_login(text) or SCHEME.search(text) is not None


def without_secrets(text: str) -> str:
    """Return a text with … in place of passwords in the addresses and entries that it has.

    Example:
        >>> without_secrets("no file 'postgresql:ann:pw@db/shop'"), without_secrets("?password=pw&sslmode=require")
        ("no file 'postgresql:ann:…@db/shop'", '?password=…&sslmode=require')
        >>> without_secrets("postgresql://ann@db:5432/shop#t is absent")
        'postgresql://ann@db:5432/shop#t is absent'
    """
    text = CUT_LOGIN.sub(r"\1:…", LOGIN.sub(r"\1:…@", text))
    return SETTING.sub(r"\1…", text)


def secret_literals(query: str) -> list[str]:
    """Return the literals and comments of a query in SQL, without quotes, if one of them looks like a secret.

    Such are texts that resemble a password or a key, and those that are compared with or given to something whose name
    says so.

    Example:
        >>> secret_literals("select * from events where token = 'abcd' and shop = 'tea'")
        ['abcd', 'tea']
        >>> secret_literals("select token, at from events where shop = 'tea' and at >= '2024-01-31 10:00'")
        []
    """
    literals, found, start = [], False, 0
    for match in LITERAL.finditer(query):
        literal = match[0]
        body = literal.strip("-/* \n") if literal[0] in "-/" else literal.lstrip("eE").strip("'$")
        before = CLAUSE.split(query[start : match.start()])[-1]
        start = match.end()
        number = literal[0].isdigit()
        words = [] if number or DATE.fullmatch(body) else body.split()
        found |= (
            SECRET_NAME.search(body if literal[0] in "-/" else before) is not None
            or has_login(body)
            or any(SHAPE.fullmatch(word) for word in words)
        )
        literals.append(body)
    return [literal for literal in literals if literal] if found else []
