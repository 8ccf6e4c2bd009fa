"""How a worker shows from outside what is wrong around it: health and metrics."""

import json
import urllib.error
import urllib.request

#: What is wrong with topics or clock is reported within this, in seconds.
SEEN_WITHIN_S = 30.0


def http_get(port: int, path: str) -> tuple[int, str]:
    """Status and body; status 0: nobody answers, and the body says why."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, f"no answer: {error}"


def problems(port: int, path: str = "/readyz") -> str:
    """What `/healthz` or `/readyz` finds wrong; empty: nothing."""
    status, body = http_get(port, path)
    return "; ".join(json.loads(body)["problems"]) if status else body


def metric(port: int, line: str) -> float:
    """Value of a metric with its labels as it is printed; 0 where there is none, or no worker."""
    status, text = http_get(port, "/metrics")
    lines = (row for row in text.splitlines() if status and row.startswith(f"{line} "))
    return sum(float(row.rpartition(" ")[2]) for row in lines)
