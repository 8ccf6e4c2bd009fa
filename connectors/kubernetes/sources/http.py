"""One GET of an answer that is read whole: what kubelets and Prometheus are asked by.

TLS with a CA of choice, a bearer token only where the connection is encrypted, a limit of time and
of size, and each way to fail by its cause (`SourceFailed`).
"""

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path

import aiohttp

from connectors.kubernetes.api.errors import ApiError, ApiUnreachable
from connectors.kubernetes.sources.clock_skew import Answered
from connectors.kubernetes.sources.health import Cause, SourceFailed
from connectors.process import wall_clock

#: Largest answer that is read: 110 pods of many containers are below 1 MB, 30,000 pods in one
#: answer of Prometheus below 10 MB.
BODY_MAX_BYTES = 64 * 1024 * 1024
#: Time for a connection to come about, in seconds.
CONNECT_S = 3.0

#: Who asks, with a password, as a URL may say it: sent, and never shown.
_USER = re.compile(r"//[^/?#]*@")

_BY_STATUS: Mapping[int, Cause] = {
    401: "credentials",
    403: "forbidden",
    404: "not_installed",
    429: "throttled",
}


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer with success."""

    body: bytes
    times: Answered


def classify_status(status: int) -> Cause:
    """What an HTTP status without success means."""
    return _BY_STATUS.get(status, "server_error" if status >= 500 else "refused")


def convert_server_error(error: OSError | RuntimeError) -> SourceFailed:
    """What an error of the API server, or of access to it, means for a source."""
    if isinstance(error, ApiError):
        return SourceFailed(classify_status(error.status), str(error))
    if isinstance(error, ApiUnreachable):
        timed_out = isinstance(error.__cause__, TimeoutError)
        return SourceFailed("timeout" if timed_out else "unreachable", str(error))
    return SourceFailed("credentials", str(error))


def build_tls_context(
    ca_file: str | None, *, insecure: bool, certificate: tuple[str, str | None] | None = None
) -> ssl.SSLContext:
    """How the other side is trusted; `certificate` and key are shown to it.

    Raises SourceFailed if a file cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if certificate is not None:
            context.load_cert_chain(*certificate)
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(filter(None, (ca_file, *(certificate or ()))))
        raise SourceFailed("certificate", f"{files}: {error}; expected PEM files") from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def read_secret(path: str) -> str:
    """The content of a file such as a token; raises SourceFailed."""
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
    """The whole answer to a GET, or to a POST of a form.

    Args:
        session: whose connections are used.
        url: what is asked.
        tls: how the other side is trusted, where the URL is https.
        token: as `Bearer ...`; sent only where the URL is https.
        timeout_s: for the whole answer.
        form: fields of a POST.

    Raises:
        SourceFailed: no answer with success came.
    """
    headers = {"User-Agent": "loadstream", "Accept-Encoding": "identity"}
    if token and url.startswith("https:"):
        headers["Authorization"] = token
    limit = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_S, timeout_s))
    asked_at_ms, shown = wall_clock.now_ms(), _USER.sub("//", url)
    with _as_source_failures(shown, timeout_s):
        async with session.request(
            "GET" if form is None else "POST", url, data=form, headers=headers, ssl=tls,
            timeout=limit, allow_redirects=False,
        ) as answer:  # fmt: skip
            came_at_ms = wall_clock.now_ms()
            if answer.status != 200:
                start = (await answer.content.read(300)).decode(errors="replace").strip()
                cause = classify_status(answer.status)
                raise SourceFailed(cause, f"{shown}: status {answer.status}: {start}")
            body = await _whole(answer, shown)
            date = answer.headers.get("Date")
    return HttpAnswer(body, Answered(asked_at_ms, came_at_ms, _date_ms(date)))


@contextmanager
def _as_source_failures(shown: str, timeout_s: float) -> Iterator[None]:
    """What a request fails with, as SourceFailed: its cause, and a sentence that names the URL."""
    try:
        yield
    except TimeoutError as error:
        raise SourceFailed("timeout", f"{shown}: no answer within {timeout_s:g} s") from error
    except (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError) as error:
        advice = "name its CA with caFile, or set insecure: true"
        raise SourceFailed("certificate", f"{shown}: {error}; {advice}") from error
    except aiohttp.ClientConnectorError as error:
        why = error.os_error.strerror or error.os_error
        raise SourceFailed("unreachable", f"{shown}: no connection: {why}") from error
    except aiohttp.ClientPayloadError as error:
        raise SourceFailed("unreachable", f"{shown}: the answer broke off: {error}") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error, SourceFailed):
            raise
        why = _USER.sub("//", str(error))  # one about the URL shows it
        raise SourceFailed("unreachable", f"{shown}: {type(error).__name__}: {why}") from error


async def _whole(answer: aiohttp.ClientResponse, url: str) -> bytes:
    pieces, size = [], 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > BODY_MAX_BYTES:
            raise SourceFailed("too_large", f"{url}: the answer is over {BODY_MAX_BYTES} bytes")
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _date_ms(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(parsedate_to_datetime(text).timestamp() * 1_000)
    except ValueError:
        return None
