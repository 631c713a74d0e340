"""Bodies of requests, read within limits of size and time."""

import asyncio

from setwise.server.guard import Receive, Scope
from setwise.server.refusals import Refused
from setwise.server.settings import Limits

PATIENCE = 4
"""How many times the largest body is read, to be thrown away, before the connection is cut: a
client that is still writing does not see an answer."""


async def read_body(scope: Scope, receive: Receive, limits: Limits) -> bytes:
    """The body of a request with JSON in it."""
    headers = dict(scope["headers"])
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise Refused(415, "the content type is not JSON; send 'Content-Type: application/json'")
    try:
        async with asyncio.timeout(limits.timeout):
            return await _within(receive, limits.max_body)
    except TimeoutError:
        raise Refused(
            408, f"the body did not arrive within {limits.timeout:g} s; send it faster, or less"
        ) from None


async def _within(receive: Receive, most: int) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more and size <= PATIENCE * most:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the connection ended before the body did; send it again")
        chunk = message.get("body", b"")
        size += len(chunk)
        chunks.append(chunk)
        more = message.get("more_body", False)
        if size > most:
            chunks.clear()
    if size > most:
        raise Refused(413, f"the body is larger than {most:,} bytes; send fewer sets at a time")
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
