"""KubeSchedulerConfiguration: of the Kubernetes scheduler, of Koordinator's, and with Trimaran."""

from typing import Any

from connectors.policy.imports.documents import Source
from connectors.policy.imports.profiles import Profile
from connectors.policy.imports.translation import (
    PROCESS,
    Origin,
    Rule,
    Translation,
    apply,
    as_map,
    each,
    keep,
    say,
    take,
)
from schemas.policy import BUILT_IN, LOAD_AWARE, OVERUTILIZATION_RISK
from schemas.policy.errors import Path
from schemas.policy.plugins import BALANCED_ALLOCATION, RESOURCES_FIT

_POINTS = (
    "filter", "score", "multiPoint", "preEnqueue", "queueSort", "preFilter", "postFilter",
    "preScore", "reserve", "permit", "preBind", "bind", "postBind", "placementGenerate",
    "placementScore", "placementFeasible", "podGroupPostFilter",
)  # fmt: skip
#: Scores by the name that they have here.
_SCORES = {
    LOAD_AWARE: LOAD_AWARE,
    RESOURCES_FIT: RESOURCES_FIT,
    BALANCED_ALLOCATION: BALANCED_ALLOCATION,
    "LoadVariationRiskBalancing": OVERUTILIZATION_RISK,
    "LowRiskOverCommitment": OVERUTILIZATION_RISK,
}
#: Scores that the Kubernetes scheduler has by default.
_DEFAULTS = (RESOURCES_FIT, BALANCED_ALLOCATION)
_METRICS = say("handled elsewhere", "sources of usage: loadstream kubernetes collect, or its agent")
_RISK = say("handled elsewhere", "section overutilizationRisk weighs variance, with its defaults")
#: Arguments of Trimaran's scores, whose place the score by risk takes.
_RISK_ARGUMENTS: dict[str, Rule] = {
    "apiVersion": keep,
    "kind": keep,
    "metricProvider": _METRICS,
    "watcherAddress": _METRICS,
    "safeVarianceMargin": _RISK,
    "safeVarianceSensitivity": _RISK,
    "smoothingWindowSize": _RISK,
    "riskLimitWeights": say("handled elsewhere", "the score NodeResourceLimitsAware knows limits"),
}
_ALL_NODES = say("handled elsewhere", "every node is scored")


def translate(to: Translation, source: Source) -> None:
    """Translate a KubeSchedulerConfiguration."""
    profiles: list[Profile] = []

    def read_profile(to: Translation, source: Source, path: Path, value: Any) -> None:
        profile = Profile(source, _POINTS)
        rules: dict[str, Rule] = {
            "schedulerName": say(
                "handled elsewhere", "loadstream kubernetes watch --scheduler NAME"
            ),
            "percentageOfNodesToScore": _ALL_NODES,
            "percentageOfPlacementsToScore": _ALL_NODES,
            **profile.rules,
        }
        apply(to, source, path, value, rules)
        if profile.enabled or profile.disabled or profile.args:
            if profiles:
                message = "found a second profile with settings; loadstream has one for all pods"
                to.problem(source, path, f"{message}: keep one")
            profiles.append(profile)

    rules: dict[str, Rule] = {
        "apiVersion": keep,
        "kind": keep,
        "profiles": each(read_profile),
        "podInitialBackoffSeconds": take("initialBackoffSeconds"),
        "podMaxBackoffSeconds": take("maxBackoffSeconds"),
        "parallelism": say("handled elsewhere", "one writer decides for a cluster"),
        "percentageOfNodesToScore": _ALL_NODES,
        "percentageOfPlacementsToScore": _ALL_NODES,
        "extenders": say(
            "lost", "extenders are not called: keep the scheduler for pods that need them"
        ),
        "delayCacheUntilActive": PROCESS["leaderElection"],
        **PROCESS,
    }
    apply(to, source, (), source.value, rules)
    for profile in profiles[:1]:
        _translate_profile(to, profile)


def _translate_profile(to: Translation, profile: Profile) -> None:
    if LOAD_AWARE in profile.names():
        to.compat = "koordinator"
    packs = _packs(to, profile)
    _put_scores(to, profile, packs)
    _put_filters(to, profile)
    for name in (LOAD_AWARE, *_DEFAULTS):
        if not (packs and name == RESOURCES_FIT):
            profile.take_args(to, name)
    for name in (name for name in profile.args if _SCORES.get(name) == OVERUTILIZATION_RISK):
        args, path = profile.args[name]
        apply(to, profile.source, path, args, _RISK_ARGUMENTS)
    profile.report_others(to, {*BUILT_IN.filter, *_SCORES})


def _packs(to: Translation, profile: Profile) -> bool:
    """Report a scoring strategy that fills nodes; loadstream has only LeastAllocated."""
    args, path = profile.args.get(RESOURCES_FIT, (None, ()))
    kind = as_map(as_map(args).get("scoringStrategy")).get("type")
    if kind not in ("MostAllocated", "RequestedToCapacityRatio"):
        return False
    text = f"strategy {kind} is not there, only LeastAllocated: loadstream keeps load even"
    to.report("lost", RESOURCES_FIT, text, profile.source, path)
    return True


def _is_disabled(profile: Profile, name: str, point: str) -> bool:
    """Tell whether a plugin that is on by default is off at an extension point."""
    return profile.finds(name, point, "multiPoint") is None and any(
        each.name in (name, "*") and each.point in (point, "multiPoint")
        for each in profile.disabled
    )


def _put_scores(to: Translation, profile: Profile, packs: bool) -> None:
    """Take over the scores that the configuration names, by a list or by arguments."""
    scores: dict[str, dict[str, Any]] = {}
    path: Path = ()
    for name, ours in _SCORES.items():
        named = profile.finds(name, "score") or profile.finds(name, "multiPoint")
        configured = name in _DEFAULTS and name in profile.args
        if (packs and name == RESOURCES_FIT) or not (named or configured):
            continue
        if named is None and _is_disabled(profile, name, "score"):
            continue
        path = path or (named.path if named else profile.args[name][1])
        weight = named.weight if named else None
        # Upstream takes a weight that is absent or 0 for 1.
        scores.setdefault(ours, {"name": ours} | ({"weight": weight} if weight else {}))
        text = "plugins.score" if name == ours else f"score {ours}, which is close to it"
        to.report("taken over", name, text, profile.source, named.path if named else path)
    if scores or _is_disabled(profile, LOAD_AWARE, "score"):
        first = path or profile.disabled[0].path
        to.put(("plugins", "score"), list(scores.values()), Origin(profile.source, first))
    if not any(name in scores for name in _DEFAULTS):
        text = (
            "the scheduler's scores by requests are off unless the file names them: plugins.score"
        )
        to.report("handled elsewhere", ", ".join(_DEFAULTS), text, profile.source, path)


def _put_filters(to: Translation, profile: Profile) -> None:
    """Take over which filters are off: LoadAwareScheduling is on only by its name."""
    unnamed = profile.finds(LOAD_AWARE, *_POINTS) and not profile.finds(
        LOAD_AWARE, "filter", "multiPoint"
    )
    filters = [
        name
        for name in BUILT_IN.filter
        if not (_is_disabled(profile, name, "filter") or (name == LOAD_AWARE and unnamed))
    ]
    if len(filters) < len(BUILT_IN.filter):
        path = (profile.disabled or profile.enabled)[0].path
        to.put(("plugins", "filter"), filters, Origin(profile.source, path))
        to.report("taken over", "filters", "plugins.filter", profile.source, path)
    named = profile.finds(LOAD_AWARE, "filter", "multiPoint")
    if named is not None:
        to.report("taken over", LOAD_AWARE, "plugins.filter", profile.source, named.path)
