"""Arguments that Koordinator refuses are refused, and all others are read."""

import gzip
import json
from pathlib import Path
from typing import Any

from schemas.policy import PolicyError
from tests.golden.loadaware import policy_of

GOLDEN = Path(__file__).parents[2] / "golden" / "loadaware.jsonl.gz"


def scenarios() -> list[dict[str, Any]]:
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_exactly_the_arguments_that_koordinator_refuses_are_refused() -> None:
    differences = []
    for case in scenarios():
        name, refused = case["scenario"]["name"], "error" in case["expected"]
        try:
            policy_of(case["scenario"]["args"])
        except PolicyError as error:
            if not refused:
                differences.append(f"{name}: refused: {error}")
        else:
            if refused:
                differences.append(f"{name}: read, but: {case['expected']['error']}")
    assert differences == []
