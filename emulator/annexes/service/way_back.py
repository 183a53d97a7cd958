"""The way back from a report to the service.

Reports are shown in a sandbox, as of another site: browsers send no session with what is opened from there. The link
therefore leads to a page of the service that has no content, and that page leads on.
"""

from __future__ import annotations

import re
from html import escape

from aiohttp import web

from emulator.annexes.service.model import Refusal

PATH = "/back"
_BODY = re.compile(r"<body[^<>]*>")
_TARGET = re.compile(r"/(runs/\d+)?|/runs")


def with_way_back(page: str, *, to: str, name: str) -> str:
    """A page of results with a link to a page of the service above its content."""
    link = f'<p style="margin:.4rem 1rem"><a id="way-back" href="{PATH}?to={escape(to)}">← {escape(name)}</a></p>'
    return _BODY.sub(lambda body: body[0] + link, page, count=1)


async def lead_back(request: web.Request) -> web.Response:
    """The page that leads on; it says nothing, so everybody may have it."""
    to = request.query.get("to", "")
    if not _TARGET.fullmatch(to):
        raise Refusal("there is no such way back", status=404)
    text = (
        f'<!doctype html><title>charkha</title><meta http-equiv="refresh" content="0;url={to}"><a href="{to}">Back</a>'
    )
    headers = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
    return web.Response(text=text, content_type="text/html", headers=headers)
