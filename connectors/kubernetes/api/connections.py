"""TLS and proxies of connections to API servers, kubelets and Prometheus.

Certificate files may change while requests use old connections. So each request names its TLS context,
and a changed file gives another context. aiohttp closes idle connections of the old context.
"""

import os
import ssl
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def build_tls_context(
    ca_file: str | None, *, insecure: bool, certificate: tuple[str, str | None] | None = None
) -> ssl.SSLContext:
    """Return a context that trusts a CA; `certificate` has files with our certificate and key.

    The context is reused until a file changes. Raises OSError if a file cannot be read.
    """
    files = (ca_file, *(certificate or ()))
    versions = tuple(os.stat(path).st_mtime_ns for path in files if path)
    return _build_context(ca_file, insecure, certificate, versions)


@lru_cache(maxsize=16)
def _build_context(
    ca_file: str | None,
    insecure: bool,
    certificate: tuple[str, str | None] | None,
    versions: tuple[int, ...],
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    if certificate is not None:
        context.load_cert_chain(*certificate)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@lru_cache(maxsize=16)
def find_proxy(host: str) -> str | None:
    """Return the proxy by HTTPS_PROXY, HTTP_PROXY and NO_PROXY; None: no proxy.

    aiohttp would look for proxies and read ~/.netrc in another thread with every request, which is a
    third of the cost of a request. A password in ~/.netrc is not used.
    """
    url, proxies = urlsplit(host), getproxies()
    if proxy_bypass(url.netloc) or _in_ranges(url.hostname or "", proxies.get("no", "")):
        return None
    return proxies.get(url.scheme)


def _in_ranges(host: str, no_proxy: str) -> bool:
    """Tell whether a range in NO_PROXY contains this address; Python does not support ranges."""
    for entry in no_proxy.split(","):
        with suppress(ValueError):  # the host or the entry is a name
            if ip_address(host) in ip_network(entry.strip(), strict=False):
                return True
    return False
