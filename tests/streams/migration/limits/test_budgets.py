"""Finding the budgets that cover a pod without checking each of them."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.objects import DisruptionBudget
from schemas.messages.pods import Pod, PodSelector, SelectorRequirement
from streams.migration.limits import budgets as budgets_module
from streams.migration.limits.budgets import (
    SELECTOR_VALUES_MAX,
    UNSELECTIVE_BUDGETS_MAX,
    BudgetIndex,
    Budgets,
)
from tests.streams.builders import label_requirement

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))


REQUIREMENTS = st.one_of(
    st.builds(
        lambda key, operator, values: label_requirement(key, operator, *values),
        st.sampled_from("abc"),
        st.sampled_from(("In", "NotIn")),
        st.lists(st.sampled_from("xyz"), max_size=3),
    ),
    st.builds(
        label_requirement, st.sampled_from("abc"), st.sampled_from(("Exists", "DoesNotExist"))
    ),
)
SELECTORS = st.builds(
    lambda labels, expressions: PodSelector(
        match_labels=labels, match_expressions=tuple(expressions)
    ),
    LABELS,
    st.lists(REQUIREMENTS, max_size=2),
)


@given(st.lists(st.tuples(st.sampled_from("pqrst"), SELECTORS | st.none())), st.lists(LABELS))
def test_covering_budgets_equal_those_of_checking_each_selector(
    history: list[tuple[str, PodSelector | None]], labels: list[dict[str, str]]
) -> None:
    index, model = BudgetIndex(), dict[str, PodSelector]()
    for name, selector in history:
        model.pop(name, None)
        if selector is None:
            index.drop(name)
        else:
            index.put(name, selector)
            model[name] = selector
        for pod_labels in labels:
            expected = sorted(name for name, one in model.items() if one.matches(pod_labels))
            assert list(index.find_covering(pod_labels)) == expected


def test_many_namespaces_keep_no_more_answers_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets_module, "CACHED_MAX", 100)
    budgets = Budgets("test")
    for number in range(40):
        selector = PodSelector(match_labels={"tier": "web"})
        budget = DisruptionBudget(
            cluster="test", namespace=f"shop-{number}", name="web", selector=selector
        )
        assert budgets.apply(budget, 1) is None
        for pod_number in range(40):
            labels = {"tier": "web", "pod": f"{pod_number}"}
            pod = Pod(namespace=f"shop-{number}", name="p", uid="p", labels=labels)
            assert budgets.find_covering_names(pod) == ("web",)
    kept = {id(index._cache): len(index._cache) for index in budgets._selectors.values()}
    assert sum(kept.values()) <= 100


@pytest.mark.slow
def test_selectors_that_cannot_match_are_not_evaluated() -> None:
    budgets = Budgets("test")
    for number in range(10_000):
        selector = PodSelector(
            match_labels={"tier": "web"},
            match_expressions=(label_requirement("app", "In", f"app-{number}"),),
        )
        budget = DisruptionBudget(
            cluster="test", namespace="shop", name=f"b-{number}", selector=selector
        )
        assert budgets.apply(budget, 1) is None
    pods = [
        Pod(namespace="shop", name=f"p{number}", uid=f"p{number}", labels=labels)
        for number in range(200)
        for labels in [{"tier": "web", "app": f"app-{number % 100}"}]
    ]
    for pod in pods:
        assert budgets.find_covering_names(pod) == (f"b-{pod.labels['app'].removeprefix('app-')}",)


def test_budgets_with_the_same_selector_evaluate_it_once() -> None:
    budgets = Budgets("test")
    everything = PodSelector()
    for number in range(100):
        budget = DisruptionBudget(
            cluster="test", namespace="shop", name=f"b-{number:03}", selector=everything
        )
        budgets.apply(budget, 1)
    pod = Pod(namespace="shop", name="p", uid="p", phase="Running")
    assert str(budgets.explain_exhausted(pod)).startswith(
        "100 disruption budgets select the pod (b-000, b-001, b-002)"
    )


def test_a_selector_beyond_the_limits_is_refused_with_the_limit() -> None:
    budgets = Budgets("test")

    def applied(name: str, *requirements: SelectorRequirement) -> str | None:
        selector = PodSelector(match_expressions=requirements)
        budget = DisruptionBudget(cluster="test", namespace="shop", name=name, selector=selector)
        return budgets.apply(budget, 1)

    for number in range(UNSELECTIVE_BUDGETS_MAX):
        assert applied(f"b-{number}", label_requirement(f"k{number}", "DoesNotExist")) is None
    assert applied("b-0", label_requirement("k0", "DoesNotExist")) is None
    assert applied("found", label_requirement("app", "Exists")) is None
    assert applied("one-more", label_requirement("other", "DoesNotExist")) == (
        "budget shop/one-more is refused: 128 budgets of its namespace require no label either, "
        "which is the limit"
    )
    parts = [label_requirement("app", "In", *(f"v{n}" for n in range(1_000))) for _ in range(3)]
    assert str(applied("large", *parts)).endswith(
        f"its selector names 3000 values; allowed are at most {SELECTOR_VALUES_MAX}"
    )


def _labelled(name: str, **labels: str) -> DisruptionBudget:
    selector = PodSelector(match_labels=labels)
    return DisruptionBudget(cluster="test", namespace="shop", name=name, selector=selector)


@pytest.mark.parametrize("plain_first", [False, True])
def test_budgets_that_a_label_tells_apart_do_not_count_to_the_limit(*, plain_first: bool) -> None:
    shards = [
        _labelled(f"b-{number}", app="web", shard=f"{number}")
        for number in range(2 * UNSELECTIVE_BUDGETS_MAX)
    ]
    plain = _labelled("plain", app="web")
    budgets = Budgets("test")
    for budget in [plain, *shards] if plain_first else [*shards, plain]:
        assert budgets.apply(budget, 1) is None
    pod = Pod(namespace="shop", name="p", uid="p", labels={"app": "web", "shard": "7"})
    assert budgets.find_covering_names(pod) == ("b-7", "plain")
    for number in range(UNSELECTIVE_BUDGETS_MAX - 1):
        assert budgets.apply(_labelled(f"same-{number}", app="web"), 1) is None
    assert budgets.apply(_labelled("too-many", app="web"), 1) is not None


def test_few_budgets_that_no_label_tells_apart_are_kept() -> None:
    budgets = Budgets("test")
    for number in range(3 * UNSELECTIVE_BUDGETS_MAX):
        selector = PodSelector(
            match_labels={"app": "web"},
            match_expressions=(label_requirement("x", "NotIn", f"{number}"),),
        )
        budget = DisruptionBudget(
            cluster="test", namespace="shop", name=f"b-{number}", selector=selector
        )
        refused = budgets.apply(budget, 1)
        assert (refused is not None) == (number >= UNSELECTIVE_BUDGETS_MAX)
    pod = Pod(namespace="shop", name="p", uid="p", labels={"app": "web"})
    assert len(budgets.find_covering_names(pod)) == UNSELECTIVE_BUDGETS_MAX
    apart = PodSelector(match_labels={"app": "web", "shard": "1"})
    budget = DisruptionBudget(cluster="test", namespace="shop", name="apart", selector=apart)
    assert budgets.apply(budget, 1) is None
    again = budget.model_copy(update={"name": "b-again", "selector": selector})
    for name in ("b-0", "b-1"):
        assert budgets.apply(budget.model_copy(update={"name": name, "removed": True}), 1) is None
    assert budgets.apply(again, 1) is None


class _Unread(dict[bytes, Any]):
    """A mapping that must not be iterated."""

    def values(self) -> Any:
        raise AssertionError("all selectors of the namespace were read")


def test_another_budget_is_not_compared_with_all_budgets_of_its_namespace() -> None:
    budgets = Budgets("test")
    values = label_requirement("app", "In", *(f"v{number}" for number in range(200)))
    for number in range(UNSELECTIVE_BUDGETS_MAX + 2):
        if number == UNSELECTIVE_BUDGETS_MAX:
            index = budgets._selectors["shop"]
            index._groups = _Unread(index._groups)
        requirement = label_requirement("x", "NotIn", f"{number}")
        selector = PodSelector(match_expressions=(values, requirement))
        budget = DisruptionBudget(
            cluster="test", namespace="shop", name=f"b-{number}", selector=selector
        )
        assert (budgets.apply(budget, 1) is not None) == (number >= UNSELECTIVE_BUDGETS_MAX)


@pytest.mark.parametrize("seed", range(20))
def test_limits_do_not_depend_on_the_history_of_budgets(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets_module, "UNSELECTIVE_BUDGETS_MAX", 3)
    random = Random(seed)
    used = BudgetIndex()
    selectors: dict[str, PodSelector] = {}

    def draw() -> PodSelector:
        labels = {key: random.choice("ab") for key in "xyz" if random.random() < 0.5}
        either = (label_requirement("v", "In", *random.sample("abcd", 2)),)
        return PodSelector(match_labels=labels, match_expressions=either * random.randrange(2))

    for _ in range(60):
        name = f"b-{random.randrange(12)}"
        if random.random() < 0.3:
            used.drop(name)
            selectors.pop(name, None)
        else:
            selectors[name] = draw()
            used.put(name, selectors[name])
    fresh = BudgetIndex()
    for name in sorted(selectors):
        fresh.put(name, selectors[name])
    for _ in range(30):
        selector = draw()
        assert used.explain_refusal("new", selector) == fresh.explain_refusal("new", selector)
