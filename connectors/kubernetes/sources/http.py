"""HTTP requests to kubelets and Prometheus, with complete answers.

A request uses TLS with a configured CA, sends a bearer token only on encrypted connections, and has
limits of time and size. Each failure has a cause (`SourceFailed`).

A kubelet stamps its figures and its answers (header `Date`) with its node's clock. While this clock is
within `SKEW_MAX_MS` of the collector's clock, a measurement keeps the node's time. With a larger skew, the
measurement would be refused as from the future, or be stale. So the measurement gets the time of the answer
by the collector's clock, minus the age of the figures by the node's clock, and the skew is reported.
"""

import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path

import aiohttp

from connectors.kubernetes.api.errors import ApiError, ApiUnreachable
from connectors.kubernetes.sources.health import SKEW_MAX_MS, Cause, SourceFailed
from connectors.process import wall_clock

#: Largest answer: 110 pods with many containers have less than 1 MB, 30,000 pods in one answer of
#: Prometheus less than 10 MB.
BODY_MAX_BYTES = 64 * 1024 * 1024
#: Longest time to connect, in seconds.
CONNECT_S = 3.0

#: User and password in a URL, which are not shown.
_USER = re.compile(r"//[^/?#]*@")

_BY_STATUS: Mapping[int, Cause] = {
    401: "credentials",
    403: "forbidden",
    404: "not_installed",
    429: "throttled",
}
#: Mean error of `Date`, which is truncated to seconds.
_DATE_CUT_MS = 500


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """Times of a request and its answer by the collector's clock, and the answer's `Date`, all in ms."""

    requested_at_ms: int
    answered_at_ms: int
    date_ms: int | None
    """None: no such header."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A successful answer."""

    body: bytes
    times: AnswerTimes


def classify_status(status: int) -> Cause:
    return _BY_STATUS.get(status, "server_error" if status >= 500 else "refused")


def convert_server_error(error: OSError | RuntimeError) -> SourceFailed:
    """Convert an error of the API server (`connectors.kubernetes.api.errors`)."""
    if isinstance(error, ApiError):
        return SourceFailed(classify_status(error.status), str(error))
    if isinstance(error, ApiUnreachable):
        timed_out = isinstance(error.__cause__, TimeoutError)
        return SourceFailed("timeout" if timed_out else "unreachable", str(error))
    return SourceFailed("credentials", str(error))


def build_tls_context(
    ca_file: str | None, *, insecure: bool, certificate: tuple[str, str | None] | None = None
) -> ssl.SSLContext:
    """Return a context that trusts a CA; `certificate` has files with our certificate and key.

    The context is reused until a file changes. Raises SourceFailed if a file cannot be read.
    """
    files = (ca_file, *(certificate or ()))
    versions = tuple(_file_version(path) for path in files if path)
    return _build_tls_context(ca_file, insecure, certificate, versions)


@lru_cache(maxsize=16)
def _build_tls_context(
    ca_file: str | None,
    insecure: bool,
    certificate: tuple[str, str | None] | None,
    versions: tuple[int, ...],
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if certificate is not None:
            context.load_cert_chain(*certificate)
    except OSError as error:  # includes ssl.SSLError
        files = ", ".join(filter(None, (ca_file, *(certificate or ()))))
        raise SourceFailed("certificate", f"{files}: {error}; expected PEM files") from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _file_version(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def read_secret(path: str) -> str:
    """Return the stripped content of a file; raises SourceFailed."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceFailed("credentials", f"{path}: {error}") from error


async def fetch(
    session: aiohttp.ClientSession,
    url: str,
    *,
    tls: ssl.SSLContext | bool,
    token: str | None,
    timeout_s: float,
    form: Mapping[str, str] | None = None,
) -> HttpAnswer:
    """Return the complete answer to a GET, or to a POST of a form.

    Args:
        session: provides the connections.
        url: the requested URL.
        tls: context of an https connection.
        token: `Bearer ...`; sent only over https.
        timeout_s: for the complete answer.
        form: fields of a POST.

    Raises:
        SourceFailed: no successful answer.
    """
    headers = {"User-Agent": "loadstream", "Accept-Encoding": "identity"}
    if token and url.startswith("https:"):
        headers["Authorization"] = token
    limit = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_S, timeout_s))
    requested_at_ms, shown = wall_clock.now_ms(), _USER.sub("//", url)
    with _as_source_failures(shown, timeout_s):
        async with session.request(
            "GET" if form is None else "POST", url, data=form, headers=headers, ssl=tls,
            timeout=limit, allow_redirects=False,
        ) as answer:  # fmt: skip
            answered_at_ms = wall_clock.now_ms()
            if answer.status != 200:
                start = (await answer.content.read(300)).decode(errors="replace").strip()
                cause = classify_status(answer.status)
                raise SourceFailed(cause, f"{shown}: status {answer.status}: {start}")
            body = await _read_body(answer, shown)
            date = answer.headers.get("Date")
    return HttpAnswer(body, AnswerTimes(requested_at_ms, answered_at_ms, _date_ms(date)))


@contextmanager
def _as_source_failures(shown: str, timeout_s: float) -> Iterator[None]:
    """Convert exceptions of a request to SourceFailed, with a sentence that has the URL."""
    try:
        yield
    except TimeoutError as error:
        raise SourceFailed("timeout", f"{shown}: no answer within {timeout_s:g} s") from error
    except (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError) as error:
        advice = "set caFile to the file with its CA, or insecure: true"
        raise SourceFailed("certificate", f"{shown}: {error}; {advice}") from error
    except aiohttp.ClientConnectorError as error:
        why = error.os_error.strerror or error.os_error
        raise SourceFailed("unreachable", f"{shown}: no connection: {why}") from error
    except aiohttp.ClientPayloadError as error:
        raise SourceFailed("unreachable", f"{shown}: the answer was cut off: {error}") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error, SourceFailed):
            raise
        why = _USER.sub("//", str(error))  # may contain the URL
        raise SourceFailed("unreachable", f"{shown}: {type(error).__name__}: {why}") from error


async def _read_body(answer: aiohttp.ClientResponse, url: str) -> bytes:
    pieces, size = [], 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > BODY_MAX_BYTES:
            raise SourceFailed(
                "too_large", f"{url}: the answer has more than {BODY_MAX_BYTES} bytes"
            )
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _date_ms(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(parsedate_to_datetime(text).timestamp() * 1_000)
    except ValueError:
        return None


def estimate_skew_ms(answered: AnswerTimes, stamped_ms: int | None) -> int | None:
    """Return the node's clock minus ours, by `Date` or by a stamp from the future; None: unknown."""
    if answered.date_ms is not None:
        halfway_ms = (answered.requested_at_ms + answered.answered_at_ms) // 2
        return answered.date_ms + _DATE_CUT_MS - halfway_ms
    if stamped_ms is not None and stamped_ms > answered.answered_at_ms:
        return stamped_ms - answered.answered_at_ms
    return None


def choose_sample_time(answered: AnswerTimes, stamped_ms: int | None) -> tuple[int, int | None]:
    """Return the sample time of figures with a stamp (None: no stamp), and the clock skew."""
    skew = estimate_skew_ms(answered, stamped_ms)
    if stamped_ms is None:
        return answered.answered_at_ms, skew
    if skew is None or abs(skew) <= SKEW_MAX_MS:
        return min(stamped_ms, answered.answered_at_ms + SKEW_MAX_MS), skew
    age_ms = 0
    if answered.date_ms is not None:
        age_ms = max(0, answered.date_ms + _DATE_CUT_MS - stamped_ms)
    return answered.answered_at_ms - age_ms, skew
