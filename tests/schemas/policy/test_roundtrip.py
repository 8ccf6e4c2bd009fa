"""What is read and printed reads back equal, and no text raises anything but `PolicyError`."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from schemas.policy import BUILT_IN, PolicyError, effective_yaml, read_policy
from schemas.policy.durations import parse_duration_ms

Raw = dict[str, Any]

#: How long one case takes says nothing on a shared machine.
unhurried = settings(deadline=None)
often = settings(deadline=None, max_examples=300)

RESOURCES = st.sampled_from(["cpu", "memory", "pods", "example.com/gpu", "1e3/x", "on/off", "é/ü"])
#: Any text that Unicode and JSON can carry in one escape, control characters among it.
TEXT = st.text(
    st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1, max_size=12
)
LABELS = st.from_regex(r"\A[a-z0-9]([a-z0-9.]{0,6}[a-z0-9])?\Z")
DURATIONS = st.sampled_from(["1ns", "0.5s", "30s", "5m", "90m", "1h30m"])


def part(**fields: SearchStrategy[Any]) -> SearchStrategy[Raw]:
    """A map with some of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


def ints(low: int, high: int) -> SearchStrategy[int]:
    return st.integers(min_value=low, max_value=high)


def percents(low: int = 0, high: int = 100) -> SearchStrategy[Raw]:
    return st.dictionaries(RESOURCES, ints(low, high), max_size=4)


def items(of: SearchStrategy[Any]) -> SearchStrategy[list[Any]]:
    return st.lists(of, max_size=3)


SELECTORS = part(
    matchLabels=st.dictionaries(LABELS, LABELS, max_size=2),
    matchExpressions=items(
        st.one_of(
            st.fixed_dictionaries(
                {
                    "key": LABELS,
                    "operator": st.sampled_from(["In", "NotIn"]),
                    "values": st.lists(LABELS, min_size=1, max_size=2),
                }
            ),
            st.fixed_dictionaries(
                {"key": LABELS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}
            ),
        )
    ),
)


@st.composite
def load_aware(draw: st.DrawFn) -> Raw:
    raw = draw(
        part(
            filterExpiredNodeMetrics=st.booleans(),
            nodeMetricExpirationSeconds=ints(1, 2**63 - 1),
            dominantResourceWeight=ints(0, 100),
            resourceWeights=percents(1),
            usageThresholds=percents(),
            prodUsageThresholds=percents(-5, 100),
            scoreAccordingProdUsage=st.booleans(),
            estimatedSecondsAfterPodScheduled=ints(-5, 5),
            supportedResources=items(RESOURCES),
            checkBoth=st.booleans(),
            aggregated=part(
                usageThresholds=percents(),
                usageAggregationType=st.sampled_from(["avg", "p50", "p95", ""]),
                usageAggregatedDuration=DURATIONS,
            ),
        )
    )
    factors = draw(percents(1))
    raw["estimatedScalingFactors"] = factors | dict.fromkeys(raw.get("resourceWeights", {}), 50)
    return raw


@st.composite
def thresholds(draw: st.DrawFn, name: str | None = None) -> Raw:
    """Threshold maps in which every figure has its counterpart and the right order."""
    raw = draw(
        part(
            useDeviationThresholds=st.booleans(),
            resourceWeights=percents(-1),
            anomalyCondition=part(
                timeout=DURATIONS,
                consecutiveAbnormalities=ints(0, 9),
                consecutiveNormalities=ints(0, 9),
            ),
        )
    )
    lows = draw(st.dictionaries(RESOURCES, st.floats(0, 40), max_size=3))
    raw["lowThresholds"] = lows
    raw["highThresholds"] = {resource: low + 30.5 for resource, low in lows.items()}
    raw["prodLowThresholds"] = {resource: low / 2 for resource, low in lows.items()}
    raw["prodHighThresholds"] = {resource: low + 1 for resource, low in lows.items()}
    if name is not None:
        raw |= {"name": name, "nodeSelector": {"matchLabels": {"pool": "x"}}}
    return raw


@st.composite
def rebalance(draw: st.DrawFn) -> Raw:
    raw = draw(
        part(
            paused=st.booleans(),
            numberOfNodes=ints(0, 9),
            nodeSelector=SELECTORS,
            nodeFit=st.booleans(),
            detectorCacheTimeout=DURATIONS,
            evictableNamespaces=part(include=items(LABELS)),
            podSelectors=items(part(name=TEXT, selector=SELECTORS)),
        )
    )
    names = draw(st.lists(TEXT, unique=True, max_size=2))
    pools = [draw(thresholds(name)) for name in names]
    return {**draw(thresholds()), **raw, "nodePools": pools}


MIGRATION = part(
    dryRun=st.booleans(),
    labelSelector=SELECTORS,
    maxMigratingGlobally=ints(0, 9),
    maxMigratingPerWorkload=st.sampled_from([3, "10%"]),
    skipEvictionGates=items(st.sampled_from(["MaxMigratingPerNode", "NodeFit"])),
    objectLimiters=st.dictionaries(
        st.sampled_from(["workload", "namespace"]),
        part(duration=DURATIONS, maxMigrating=ints(0, 3), burst=ints(0, 3)),
    ),
    schedulerNames=items(TEXT),
    evictQPS=st.sampled_from([1, 2.5, "10"]),
    priorityThreshold=part(name=TEXT),
    defaultDeleteOptions=part(gracePeriodSeconds=ints(0, 60), dryRun=items(st.just("All"))),
    arbitrationArgs=part(interval=DURATIONS),
)
EVICTOR = part(
    nodeSelector=st.sampled_from(["", "a in (b,c)", "!a"]),
    namespaceLabelSelector=SELECTORS,
    minPodAge=DURATIONS,
    noEvictionPolicy=st.sampled_from(["Preferred", "Mandatory"]),
    podProtections=part(
        extraEnabled=items(st.just("PodsWithPVC")),
        config=part(PodsWithPVC=part(protectedStorageClasses=items(part(name=TEXT).filter(bool)))),
    ),
)
COLLECT = part(
    metricAggregateDurationSeconds=ints(60, 3600),
    metricAggregatePolicy=part(
        durations=st.lists(DURATIONS, unique_by=parse_duration_ms, max_size=3)
    ),
    pools=st.lists(
        st.fixed_dictionaries(
            {"name": TEXT}, optional={"metricReportIntervalSeconds": ints(30, 90)}
        ),
        unique_by=lambda pool: pool["name"],
        max_size=2,
    ),
)
POLICIES = part(
    mode=st.sampled_from(["observe", "enforce"]),
    compat=st.sampled_from(["loadstream"]),
    plugins=part(
        filter=st.permutations(BUILT_IN.filter).flatmap(
            lambda all_: ints(0, 7).map(lambda n: all_[:n])
        ),
        score=st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(BUILT_IN.score)}, optional={"weight": ints(1, 1_000_000)}
            ),
            unique_by=lambda plugin: plugin["name"],
        ),
    ),
    loadAware=load_aware(),
    resourceLimits=part(
        resources=st.lists(
            st.fixed_dictionaries({"name": RESOURCES}, optional={"weight": ints(1, 100)}),
            unique_by=lambda resource: resource["name"],
            max_size=3,
        )
    ),
    resourcesFit=part(
        scoringStrategy=part(
            resources=st.lists(
                st.fixed_dictionaries({"name": RESOURCES}, optional={"weight": ints(1, 100)}),
                unique_by=lambda resource: resource["name"],
                max_size=3,
            )
        )
    ),
    balancedAllocation=part(
        resources=st.lists(st.builds(lambda name: {"name": name}, RESOURCES), max_size=1)
    ),
    overutilizationRisk=part(
        resources=st.lists(
            st.fixed_dictionaries(
                {"name": RESOURCES}, optional={"weight": ints(1, 100), "hotPercent": ints(1, 100)}
            ),
            unique_by=lambda resource: resource["name"],
            max_size=3,
        ),
        excessWeight=ints(0, 1_000),
        meanPriorMinutes=ints(1, 10_080),
        variancePriorMinutes=ints(1, 10_080),
        usagePriorPercent=ints(1, 100),
        usagePriorPods=ints(1, 100_000),
        deviationPriorPercent=ints(1, 100),
        spreadPriorPercent=ints(1, 100),
    ),
    collect=COLLECT,
    rebalance=rebalance(),
    migration=MIGRATION,
    evictor=EVICTOR,
    descheduling=part(
        deschedulingInterval=DURATIONS, maxNoOfPodsToEvictTotal=ints(0, 9), nodeSelector=SELECTORS
    ),
    reservationSeconds=ints(1, 86_400),
    metricFutureSeconds=ints(0, 86_400),
)


@unhurried
@given(POLICIES)
def test_a_policy_that_is_read_and_printed_reads_back_equal(raw: Raw) -> None:
    policy = read_policy(json.dumps(raw))
    printed = effective_yaml(policy)
    again = read_policy(printed)
    assert again == policy
    assert again.digest == policy.digest
    assert effective_yaml(again) == printed


@unhurried
@given(POLICIES, st.randoms(use_true_random=False))
def test_the_order_of_fields_does_not_matter(raw: Raw, random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            entries = [(key, shuffled(each)) for key, each in value.items()]
            random.shuffle(entries)
            return dict(entries)
        return [shuffled(each) for each in value] if isinstance(value, list) else value

    assert read_policy(json.dumps(shuffled(raw))).digest == read_policy(json.dumps(raw)).digest


def reads_or_refuses(text: str | bytes) -> None:
    """Nothing but a policy or a `PolicyError` with at least one problem comes of any text."""
    problems = None
    try:
        read_policy(text)
    except PolicyError as error:
        problems = error.problems
    assert problems is None or problems


@unhurried
@given(st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(text: bytes) -> None:
    reads_or_refuses(text)


YAML_PIECES = st.sampled_from(
    [
        "mode", "loadAware", "rebalance", "plugins", "kind", "usageThresholds", "cpu", "profiles",
        "KubeSchedulerConfiguration", "DeschedulerPolicy", "pluginConfig", "args", "name", "5", "1e9",
        "null", "true", ".nan", "'", '"', ": ", ":", "- ", "\n", "\n  ", "\n    ", "{", "}", "[", "]",
        ", ", "? ", "&a ", "*a", "<<", "!!str ", "!x ", "|\n", ">\n", "---\n", "...\n", "%YAML 1.2\n",
        "#", "\t", "\\", "\ufeff", "\x85", "\u2028", "\x00", "é", "5m", "-",
    ]
)  # fmt: skip


@often
@given(st.lists(YAML_PIECES, max_size=40).map("".join))
def test_pieces_of_yaml_in_any_order_are_read_or_refused(text: str) -> None:
    reads_or_refuses(text)


KEYS = st.sampled_from(
    [
        "mode", "compat", "plugins", "filter", "score", "balance", "loadAware", "usageThresholds", "cpu",
        "aggregated", "rebalance", "nodePools", "nodeSelector", "matchExpressions", "migration",
        "objectLimiters", "workload", "evictor", "podProtections", "config", "PodsWithPVC", "collect",
        "pools", "descheduling", "kind", "apiVersion", "profiles", "pluginConfig", "name", "args",
        "enabled", "disabled", "multiPoint", "leaderElection", "x",
    ]
)  # fmt: skip
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(
        [
            "KubeSchedulerConfiguration", "DeschedulerConfiguration", "DeschedulerPolicy",
            "LowNodeLoadArgs", "LowNodeLoad", "LoadAwareScheduling", "MigrationController", "5m", "*", "",
        ]
    ),
    TEXT,
)  # fmt: skip


@often
@given(
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)
        ),
        max_leaves=20,
    )
)
def test_values_of_any_shape_are_read_or_refused(value: Any) -> None:
    reads_or_refuses(json.dumps(value))
