"""KubeSchedulerConfiguration of the Kubernetes scheduler, of Koordinator, or with Trimaran."""

from connectors.policies.imports.documents import DocumentNode
from connectors.policies.imports.profiles import Profile
from connectors.policies.imports.translation import (
    PROCESS,
    SOURCES,
    TYPE,
    Rule,
    Translation,
    apply,
    apply_to_items,
    copy_to,
    elsewhere,
    lost,
)
from schemas.policy import BUILT_IN, LOAD_AWARE, OVERUTILIZATION_RISK
from schemas.policy.sections.plugins import BALANCED_ALLOCATION, RESOURCES_FIT

_POINTS = (
    "filter", "score", "multiPoint", "preEnqueue", "queueSort", "preFilter", "postFilter",
    "preScore", "reserve", "permit", "preBind", "bind", "postBind", "placementGenerate",
    "placementScore", "placementFeasible", "podGroupPostFilter",
)  # fmt: skip
#: loadstream's score for each score of these schedulers.
_SCORES = {
    LOAD_AWARE: LOAD_AWARE,
    RESOURCES_FIT: RESOURCES_FIT,
    BALANCED_ALLOCATION: BALANCED_ALLOCATION,
    "LoadVariationRiskBalancing": OVERUTILIZATION_RISK,
    "LowRiskOverCommitment": OVERUTILIZATION_RISK,
}
#: Scores that the Kubernetes scheduler enables by default.
_DEFAULTS = (RESOURCES_FIT, BALANCED_ALLOCATION)
_RISK = elsewhere("section overutilizationRisk weighs variance, with its defaults")
#: Arguments of Trimaran's scores, which become OverutilizationRisk.
_RISK_ARGUMENTS: dict[str, Rule] = {
    **TYPE,
    "metricProvider": SOURCES,
    "watcherAddress": SOURCES,
    "safeVarianceMargin": _RISK,
    "safeVarianceSensitivity": _RISK,
    "smoothingWindowSize": _RISK,
    "riskLimitWeights": elsewhere("the score NodeResourceLimitsAware knows limits"),
}
_ALL_NODES = elsewhere("every node is scored")
_SAMPLED: dict[str, Rule] = {
    "percentageOfNodesToScore": _ALL_NODES,
    "percentageOfPlacementsToScore": _ALL_NODES,
}


def translate(result: Translation, node: DocumentNode) -> None:
    """Translate a KubeSchedulerConfiguration."""
    profiles: list[Profile] = []

    def read_profile(result: Translation, node: DocumentNode) -> None:
        profile = Profile(_POINTS)
        name = elsewhere("loadstream kubernetes watch --scheduler NAME")
        apply(result, node, {"schedulerName": name, **_SAMPLED, **profile.rules})
        if profile.enabled or profile.disabled or profile.args:
            if profiles:
                message = "found a second profile with settings; loadstream has one for all pods"
                result.add_problem(node, f"{message}: keep one")
            profiles.append(profile)

    rules: dict[str, Rule] = {
        **TYPE,
        "profiles": apply_to_items(read_profile),
        "podInitialBackoffSeconds": copy_to("initialBackoffSeconds"),
        "podMaxBackoffSeconds": copy_to("maxBackoffSeconds"),
        "parallelism": elsewhere("one writer decides for a cluster"),
        "extenders": lost("extenders are not called: keep the scheduler that calls them"),
        "delayCacheUntilActive": PROCESS["leaderElection"],
        **_SAMPLED,
        **PROCESS,
    }
    apply(result, node, rules)
    for profile in profiles[:1]:
        _translate_profile(result, profile)


def _translate_profile(result: Translation, profile: Profile) -> None:
    if LOAD_AWARE in profile.list_plugins():
        result.compat = "koordinator"
    fills = _fills_nodes(result, profile)
    _put_scores(
        result, profile, {name for name in _SCORES if not (fills and name == RESOURCES_FIT)}
    )
    _put_filters(result, profile)
    for name in (LOAD_AWARE, BALANCED_ALLOCATION, *(() if fills else (RESOURCES_FIT,))):
        profile.copy_args(result, name)
    for name, args in profile.args.items():
        if _SCORES.get(name) == OVERUTILIZATION_RISK:
            apply(result, args, _RISK_ARGUMENTS)
    profile.report_others(result, {*BUILT_IN.filter, *_SCORES})


def _fills_nodes(result: Translation, profile: Profile) -> bool:
    """Tell whether the scoring strategy fills nodes, and report it: loadstream has no such strategy."""
    args = profile.args.get(RESOURCES_FIT)
    strategy = args.child("scoringStrategy", "type") if args else None
    if strategy is None or strategy.value not in ("MostAllocated", "RequestedToCapacityRatio"):
        return False
    text = f"there is no strategy {strategy.value}, only LeastAllocated: loadstream keeps load even"
    result.report("lost", strategy, text, RESOURCES_FIT)
    return True


def _is_disabled(profile: Profile, name: str, point: str) -> bool:
    """Tell whether the profile disables a default plugin at an extension point."""
    return profile.find_plugin(name, point, "multiPoint") is None and any(
        plugin.name in (name, "*") and plugin.point in (point, "multiPoint")
        for plugin in profile.disabled
    )


def _put_scores(result: Translation, profile: Profile, names: set[str]) -> None:
    """Take over scores that the configuration enables or gives arguments."""
    scores: dict[str, dict[str, object]] = {}
    first: DocumentNode | None = None
    for name in (name for name in _SCORES if name in names):
        plugin = profile.find_plugin(name, "score") or profile.find_plugin(name, "multiPoint")
        configured = profile.args.get(name) if name in _DEFAULTS else None
        if configured and _is_disabled(profile, name, "score"):
            continue
        node = plugin.node if plugin else configured
        if node is None:
            continue
        first, ours = first or node, _SCORES[name]
        # The schedulers read a missing weight, or 0, as 1.
        weight = plugin.weight if plugin else None
        scores.setdefault(ours, {"name": ours} | ({"weight": weight} if weight else {}))
        text = "plugins.score" if name == ours else f"score {ours}, which is close to it"
        result.report("taken over", node, text, name)
    if first is None:
        return
    result.set_value(("plugins", "score"), list(scores.values()), first)
    if not any(name in scores for name in _DEFAULTS):
        text = (
            "the scheduler's scores by requests are off unless the file names them: plugins.score"
        )
        result.report("handled elsewhere", first, text, ", ".join(_DEFAULTS))


def _put_filters(result: Translation, profile: Profile) -> None:
    """Take over disabled filters. LoadAwareScheduling is enabled only if the configuration names it."""
    plugin = profile.find_plugin(LOAD_AWARE, "filter", "multiPoint")
    unnamed = plugin is None and profile.find_plugin(LOAD_AWARE, *_POINTS) is not None
    filters = [
        name
        for name in BUILT_IN.filter
        if not (_is_disabled(profile, name, "filter") or (name == LOAD_AWARE and unnamed))
    ]
    if len(filters) < len(BUILT_IN.filter):
        node = (profile.disabled or profile.enabled)[0].node
        result.set_value(("plugins", "filter"), filters, node)
        result.report("taken over", node, "plugins.filter", "filters")
    if plugin is not None:
        result.report("taken over", plugin.node, "plugins.filter", LOAD_AWARE)
