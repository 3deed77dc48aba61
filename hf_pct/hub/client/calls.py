"""Calls to the Hub: repeated while that can help, and explained when it cannot.

huggingface_hub repeats the upload of large files by itself, but neither the commit nor the calls around it: a commit
whose answer got lost may have happened. Here a call is repeated from its start, so that it looks at the repository
again before it commits again, and what is up already is not sent twice.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Protocol, TypeVar

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

ATTEMPTS = 5
LONGEST_WAIT = 120.0
# too slow, too many, or the server's own trouble; 412: someone else has committed since we looked
REPEATABLE = (408, 412, 429, 500, 502, 503, 504)


class HubError(OSError):
    """The Hub refused, or cannot be reached. The message says what to do; nothing is half published."""


def call(what: str, function: Callable[[], Result]) -> Result:
    """The result of `function`, repeated while the trouble may pass; a `HubError` that says `what` failed and why."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return function()
        except Exception as error:
            status, response = _status(error)
            lost = status is None and _is_connection_error(error)
            if not lost and status is None:
                raise  # not the Hub's: a mistake in the arguments, or in this code
            wait = _retry_after(response) or float(2 ** (attempt - 1))
            if status is not None and status not in REPEATABLE:
                raise HubError(_explain(what, status, response, error)) from error
            if attempt == ATTEMPTS or wait > LONGEST_WAIT:
                raise HubError(_gave_up(what, status, error, attempt, wait)) from error
            reason = f"HTTP {status}" if status else "the connection was lost"
            logger.warning("To %s: %s; again in %.0f s (%d of %d).", what, reason, wait, attempt, ATTEMPTS - 1)
            time.sleep(wait)
    raise AssertionError("unreachable")


class _Response(Protocol):
    """An answer of the server, from whichever HTTP library is behind huggingface_hub."""

    headers: Mapping[str, str]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was raised from: the client wraps what happens in its upload threads."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__


def _status(error: BaseException) -> tuple[int | None, _Response | None]:
    for cause in _causes(error):
        response = getattr(cause, "response", None)
        if response is not None and getattr(response, "status_code", None):
            return int(response.status_code), response
    return None, None


def _is_connection_error(error: BaseException) -> bool:
    """Lost, refused or timed out; the HTTP library behind huggingface_hub has another name in each major version."""
    for cause in _causes(error):
        if type(cause).__name__ == "OfflineModeIsEnabled":
            return False
        library = type(cause).__module__.split(".")[0]
        if library in ("httpx2", "httpx", "httpcore2", "httpcore", "requests", "urllib3"):
            return True
        if isinstance(cause, ConnectionError | TimeoutError | json.JSONDecodeError):  # a gateway's error page
            return True
    return False


def _retry_after(response: _Response | None) -> float | None:
    """The seconds that the server asks to wait: a number or a date."""
    value = None if response is None else response.headers.get("Retry-After")
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError, OSError):
            return None
    return max(seconds, 0.1) if math.isfinite(seconds) else None


def _said(response: _Response | None, error: BaseException) -> str:
    """The server's own words, on one line."""
    said = response.headers.get("X-Error-Message") if response is not None else None
    words = [said, *(getattr(cause, "server_message", None) for cause in _causes(error)), error]
    return " ".join(str(next(word for word in words if word)).split())


def _explain(what: str, status: int, response: _Response | None, error: BaseException) -> str:
    said = _said(response, error)
    advice = {
        400: "The Hub calls the request malformed; what it says is above.",
        401: "The token is missing, wrong or expired. Make one with write permission in your settings on the Hub, "
        "then `hf auth login`, or set HF_TOKEN.",
        402: "The plan of this account does not include it; a Space without a computer is free (--sdk static).",
        403: "The token is valid but may not do this. Use a token with write permission, and an account that may "
        "write to this namespace.",
        404: "There is no such repository, or the token may not see it. Check the spelling of namespace/name.",
    }
    return f"Could not {what}: the Hub answers {status} ({said}). {advice.get(status, '')}".rstrip()


def _gave_up(what: str, status: int | None, error: BaseException, attempts: int, wait: float) -> str:
    if status == 429:
        return f"Could not {what}: too many requests; the Hub asks to wait {wait:.0f} s. Run the same after that."
    reason = f"the Hub answers {status}" if status else f"the connection was lost ({' '.join(str(error).split())})"
    return (
        f"Could not {what}: {reason}, {attempts} times. Files of a commit appear together or not at all: run the same "
        "again, what is up already is not sent twice."
    )
