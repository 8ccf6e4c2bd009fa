"""Health and metrics of a worker as seen from outside."""

import json
import urllib.error
import urllib.request

#: Seconds within which a worker reports problems of topics or the clock.
SEEN_WITHIN_S = 30.0


def http_get(port: int, path: str) -> tuple[int, str]:
    """Status and body; status 0: no connection, and the body is the error."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, f"no answer: {error}"


def problems(port: int, path: str = "/readyz") -> str:
    """Problems that `/healthz` or `/readyz` reports; empty if there are none."""
    status, body = http_get(port, path)
    return "; ".join(json.loads(body)["problems"]) if status else body


def metric(port: int, line: str) -> float:
    """Sum of a metric with exactly these labels; 0 if it is missing or no worker answers."""
    status, text = http_get(port, "/metrics")
    lines = (row for row in text.splitlines() if status and row.startswith(f"{line} "))
    return sum(float(row.rpartition(" ")[2]) for row in lines)
