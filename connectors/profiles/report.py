"""What is known of a fleet and of owners, in sentences and as one JSON object."""

from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any

import orjson

from connectors.profiles.reading import Profiles
from connectors.units import time_text
from schemas.printable import json_text
from schemas.usage_moments import FleetFigures, OwnerFigures, OwnerUsageRow

#: Where a pod says by which factors it is estimated (docs/upstream.md A4.2).
SCALING_FACTORS_ANNOTATION = "scheduling.koordinator.sh/load-estimated-scaling-factors"
#: Owners that an answer about a cluster names; the others are counted.
NAMED_MAX = 20
_PERCENT = 10_000
_SHARE = 1_000_000


def sentences(profiles: Profiles, owner: str | None) -> Iterator[str]:
    """The answer about a cluster, or about one owner in it."""
    if profiles.fleet is None:
        yield (
            f"Nothing is known of what pods of cluster {profiles.cluster} use of their requests. "
            "It is learned while plugins.score or plugins.balance enables OverutilizationRisk, or with "
            "`loadAware: {estimateBy: fleet}`, from the first five minutes with metrics on."
        )
        return
    yield (
        f"Figures of cluster {profiles.cluster} were worked out at "
        f"{time_text(profiles.fleet.renewed_at_ms)}."
    )
    for resource, figures in profiles.fleet.resources.items():
        yield f"A pod of the cluster is expected to use {_expected(resource, figures)}."
    if owner is None:
        yield (
            "LoadAwareScheduling expects the same of pods that are not measured with `loadAware: "
            f"{{estimatedScalingFactors: {_yaml(factors(profiles.fleet.resources))}}}`"
            f"{_capped(profiles.fleet.resources)}, and follows what is learned {_FOLLOWS % 'fleet'}."
        )
        yield from _owners(profiles)
        return
    found = profiles.named(owner)
    if not found:
        yield _unknown(profiles, owner)
    for row in found:
        yield from _owner(row)


def known(profiles: Profiles, owner: str | None) -> bool:
    """Whether anything is known of what is asked."""
    return profiles.fleet is not None and (owner is None or bool(profiles.named(owner)))


def factors(figures: Mapping[str, FleetFigures]) -> dict[str, int]:
    """Expected usage as scaling factors of load-aware estimation, in percent of requests.

    Of a pod whose limits are above its requests a factor is a share of the limits: there they
    expect more than is known.
    """
    return {
        name: min(100, max(1, round(each.usage_ppm / _PERCENT))) for name, each in figures.items()
    }


def document(profiles: Profiles, owner: str | None) -> dict[str, Any]:
    """The same as plain values: the rows as they are."""
    rows = profiles.owners if owner is None else profiles.named(owner)
    return {
        "cluster": profiles.cluster,
        "owner": owner,
        "known": known(profiles, owner),
        "answer": list(sentences(profiles, owner)),
        "warnings": list(profiles.warnings),
        "estimated_scaling_factors": None
        if profiles.fleet is None
        else factors(profiles.fleet.resources),
        "fleet": None if profiles.fleet is None else profiles.fleet.payload(),
        "owners": [row.payload() for row in rows],
    }


def _owners(profiles: Profiles) -> Iterator[str]:
    if not profiles.owners:
        yield _NO_OWNERS
        return
    most = sorted(
        profiles.owners,
        key=lambda row: -max((each.pods_milli for each in row.figures.values()), default=0),
    )
    for row in most[:NAMED_MAX]:
        for resource, figures in row.figures.items():
            yield f"{_name(row)}: {_own(resource, figures)}."
    more = len(most) - NAMED_MAX
    if more > 0:
        yield f"{more} more {'owner is' if more == 1 else 'owners are'} known."


def _owner(row: OwnerUsageRow) -> Iterator[str]:
    yield f"{_name(row)} had measured pods last at {time_text(row.seen_at_ms)}."
    for resource, figures in row.figures.items():
        yield f"Its pods: {_own(resource, figures)}."
        if figures.weight_ppm:
            yield f"Its next pod is expected to use {_expected(resource, figures.expected)}."
        else:
            yield (
                f"Its next pod is expected to use as much {resource} as any pod of the cluster: "
                "owners' pods are not more alike than others, or none of its was measured for 15 minutes."
            )
    if any(each.weight_ppm for each in row.figures.values()):
        expected = {name: each.expected for name, each in row.figures.items()}
        yield (
            "LoadAwareScheduling expects the same of its pods with the annotation "
            f"{SCALING_FACTORS_ANNOTATION}: '{json_text(orjson.dumps(factors(expected)))}' and "
            f"`loadAware: {{allowCustomizeEstimation: true}}`{_capped(expected)}, and follows what is "
            f"learned {_FOLLOWS % 'owner'}."
        )
    if not row.figures:
        yield "No figures have been worked out yet."
    for resource, past in row.past.items():
        parts = ", ".join(
            f"{each.pods_milli / 1000:.1f} for {length}"
            for each, length in zip(past, ("a day", "a week", "four weeks"), strict=False)
            if each.pods_milli
        )
        if parts:
            yield f"Of pods that are gone it remembers, by {resource}: {parts}."


def _own(resource: str, figures: OwnerFigures) -> str:
    own = figures.own
    return (
        f"{figures.pods_milli / 1000:.1f} measured, which use {own.usage_ppm / _PERCENT:.0f} % of "
        f"their requests of {resource}, pods differ by {_deviation(own.spread_ppm)}, and over "
        f"time by {_deviation(own.variance_ppm)}; weight {figures.weight_ppm / _PERCENT:.0f} % "
        "against the cluster's"
    )


def _expected(resource: str, figures: FleetFigures) -> str:
    return (
        f"{figures.usage_ppm / _PERCENT:.0f} % of its request of {resource}, give or take "
        f"{_deviation(figures.spread_ppm)}, and to vary by {_deviation(figures.variance_ppm)}"
    )


def _capped(figures: Mapping[str, FleetFigures]) -> str:
    """Of which resources scaling factors say less than is expected, since they end at 100."""
    beyond = [name for name, each in figures.items() if round(each.usage_ppm / _PERCENT) > 100]
    return f" (less of {' and '.join(beyond)}: a factor is 100 at most)" if beyond else ""


def _yaml(factors: Mapping[str, int]) -> str:
    return "{" + ", ".join(f"{name}: {percent}" for name, percent in factors.items()) + "}"


def _deviation(square_ppm: int) -> str:
    return f"{100 * sqrt(square_ppm / _SHARE):.0f} points"


def _name(row: OwnerUsageRow) -> str:
    return f"{row.kind} {row.namespace}/{row.name}"


#: With which argument estimates go by the figures themselves.
_FOLLOWS = (
    "with `loadAware: {estimateBy: %s}`, where `estimateMarginPercent` of the deviation is added"
)

_NO_OWNERS = (
    "Nothing is known of single owners. It is learned with `overutilizationRisk: {profiles: "
    "owner}` or `loadAware: {estimateBy: owner}`, from pods with a controller that were measured for 15 minutes."
)


def _unknown(profiles: Profiles, owner: str) -> str:
    if not profiles.owners:
        return _NO_OWNERS
    return (
        f"Nothing is known of an owner {owner}: none of its pods has been measured for 15 minutes, "
        "or they are forgotten. Names are NAME, KIND/NAME, NAMESPACE/NAME or NAMESPACE/KIND/NAME, a "
        "Deployment's its own and not its ReplicaSet's."
    )
