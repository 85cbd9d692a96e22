"""What all errors have in common that a client is told of."""

from __future__ import annotations


class GatewayError(Exception):
    """Something that a client asked for and cannot have; the message says what was expected and
    what came.

    param: path of the field to blame, if one is. type: whose fault it is, in OpenAI's words.
    """

    def __init__(
        self, message: str, *, param: str | None = None, type: str = "invalid_request_error"
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.type = type
