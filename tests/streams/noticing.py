"""How a worker shows from outside what is wrong around it: health and metrics."""

import json
import urllib.error
import urllib.request

#: What is wrong with topics or clock is reported within this, in seconds.
SEEN_WITHIN_S = 30.0


def problems(port: int, path: str) -> str:
    """What `/healthz` or `/readyz` finds wrong; empty: nothing."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            body = answer.read()
    except urllib.error.HTTPError as error:
        body = error.read()
    except OSError as error:
        return f"no answer: {error}"
    return "; ".join(json.loads(body)["problems"])


def metric(port: int, line: str) -> float:
    """Value of a metric with its labels as it is printed; 0 where there is none, or no worker."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = str(answer.read().decode())
    except OSError:
        return 0.0
    found = (each for each in text.splitlines() if each.startswith(f"{line} "))
    return sum(float(each.rpartition(" ")[2]) for each in found)
