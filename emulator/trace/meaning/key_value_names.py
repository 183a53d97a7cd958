"""Names of the sends and receives that carry a key-value cache: `request.12.kv.to.5`, `request.12.kv.from.0`.

The names say which nodes belong to one request. Results of any trace that names them so have times of requests.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"request\.(\d{1,18})\.kv\.(?:to|from)\.\d+")


def key_value_name(request: int, peer: int, *, is_send: bool) -> str:
    """Name of a send to, or of a receive from, the rank `peer`."""
    return f"request.{request}.kv.{'to' if is_send else 'from'}.{peer}"


def request_of(name: str) -> int | None:
    """Number of the request to which a node belongs; None: it carries no key-value cache."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None
