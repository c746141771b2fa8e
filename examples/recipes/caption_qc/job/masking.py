"""What of others' words may be shown: what a library or a store says may hold passwords, tokens and keys.

1. What the environment holds for a secret is shown nowhere, however it is written.
2. An address is shown without what stands before the @ of its host, and without its query.
3. A header that proves who asks is shown without its value.

More is masked than need be, rather than less.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from .assets import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MASK: Final = "***"
# Shorter ones are words of messages too.
_SHORTEST: Final = 4
_SECRETS: Final = re.compile(r"AWS_\w*(?:KEY|KEY_ID|TOKEN|SECRET|PASSWORD)")
_ADDRESSES: Final = re.compile(r"(?i)AWS_ENDPOINT_URL\w*|AWS_\w+_URI|\w+_PROXY")
_SHOWN_WITHOUT: Final = (
    (re.compile(r"(?i)\b(AWS4-[\w-]+|Basic|Bearer)\s+\S.*"), rf"\1 {MASK}"),
    (re.compile(r"(?i)\b(Authorization|Credential|Signature|[\w-]*Token)\s*[=:]\s*\S+"), rf"\1={MASK}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{8,}"), MASK),
    (re.compile(r"(['\"`(]*(?:\w+://)?)\S*@"), rf"\1{MASK}@"),
    (re.compile(r"\?[^\s]+?(['\"`]?)(?=\s|$)"), rf"?{MASK}\1"),
)


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """Write what others have said in one line, without the environment's secrets and `secrets`."""
    written = {way for secret in (*secrets, *_of_environment()) for way in _ways_to_write(secret)}
    for secret in sorted(written, key=len, reverse=True):
        text = text.replace(secret, MASK)
    for pattern, instead in _SHOWN_WITHOUT:
        text = pattern.sub(instead, text)
    return printable(text)


def _of_environment() -> Iterator[str]:
    for name, value in os.environ.items():
        if _SECRETS.fullmatch(name):
            yield value
        elif _ADDRESSES.fullmatch(name):
            yield from _in_address(value)


def _in_address(address: str) -> Iterator[str]:
    """Find user and password, and the query; either may hold what ends the other in an address that is right."""
    before, at, behind = address.rpartition("@")
    if at:
        user = before.partition("//")[2] or before
        yield from (user, user.partition(":")[2])
    query = behind.partition("?")[2]
    yield from (query, *re.split(r"[&=]", query)[1:])


def _ways_to_write(secret: str) -> Iterator[str]:
    # Line ends come as escapes; what stands beside them is the secret.
    for piece in (secret, *secret.split()):
        for way in (
            piece,
            repr(piece)[1:-1],
            unquote(piece),
            quote(piece, safe="", errors="surrogateescape"),
        ):
            if len(way) >= _SHORTEST:
                yield way
