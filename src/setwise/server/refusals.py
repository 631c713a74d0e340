"""A request that is not answered, and why: one sentence and the place in the request."""

import msgspec


class Refusal(msgspec.Struct):
    """What went wrong: the cause with its remedy, and where in the request."""

    message: str
    where: str | None = None


class ErrorBody(msgspec.Struct):
    """The body of every answer that is not one."""

    error: Refusal


class Refused(Exception):
    """The request cannot be answered; the client is told why.

    >>> Refused(413, "the body is too large; send fewer sets").body()
    b'{"error":{"message":"the body is too large; send fewer sets","where":null}}'
    """

    def __init__(self, status: int, message: str, where: str | None = None):
        super().__init__(message)
        self.status, self.message, self.where = status, message, where

    def body(self) -> bytes:
        """The answer's body."""
        return msgspec.json.encode(ErrorBody(Refusal(self.message, self.where)))

    def headers(self) -> dict[str, str]:
        """The answer's headers, without its length."""
        found = {"content-type": "application/json", "cache-control": "no-store"}
        if self.status == 401:
            found["www-authenticate"] = "Bearer"
        if self.status == 503:
            found["retry-after"] = "1"
        if self.status in (408, 413):  # the rest of the body may never come
            found["connection"] = "close"
        return found
