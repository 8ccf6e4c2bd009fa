from hypothesis import given
from hypothesis import strategies as st

from streams.aggregate.pods import PodWindow
from streams.aggregate.reading import Member

A: Member = ("default", "a", "uid-a", "")
A_PROD: Member = ("default", "a", "uid-a", "koord-prod")
A_AGAIN: Member = ("default", "a", "uid-of-another-a", "")
B: Member = ("default", "b", "uid-b", "")
APPLICATION: Member = ("", "b", "", "")


def window(*samples: tuple[int, list[tuple[Member, dict[str, int]]]]) -> PodWindow:
    filled = PodWindow()
    for time_ms, members in samples:
        filled.add(time_ms, 0, filled.matrix(members, ["cpu", "memory"]))
    return filled


def means(of: PodWindow, since_ms: int = 0) -> list[tuple[Member, dict[str, int]]]:
    return [(member, usage) for member, usage in of.means(since_ms, ["cpu", "memory"])]


def test_means_are_over_the_samples_that_have_the_pod() -> None:
    filled = window((1, [(B, {"cpu": 5}), (A, {"cpu": 1})]), (2, [(A, {"cpu": 4, "memory": 7})]))
    assert means(filled) == [(A, {"cpu": 2, "memory": 7}), (B, {"cpu": 5})]
    assert means(filled, 2) == [(A, {"cpu": 4, "memory": 7})]
    assert means(filled, 3) == []


def test_of_two_pods_of_one_name_the_one_seen_last_is_reported() -> None:
    filled = window((1, [(A, {"cpu": 1})]), (3, [(A_AGAIN, {"cpu": 9})]), (2, [(A, {"cpu": 1})]))
    assert means(filled) == [(A_AGAIN, {"cpu": 9})]


def test_a_pod_that_changed_its_class_is_one_pod_of_its_new_class() -> None:
    filled = window((1, [(A, {"cpu": 1})]), (2, [(A_PROD, {"cpu": 4})]))
    assert means(filled) == [(A_PROD, {"cpu": 2})]


def test_a_pod_and_a_host_application_of_one_name_are_two() -> None:
    filled = window((1, [(B, {"cpu": 1}), (APPLICATION, {"cpu": 2})]))
    assert means(filled) == [(APPLICATION, {"cpu": 2}), (B, {"cpu": 1})]


def test_a_pod_of_which_nothing_was_measured_is_left_out() -> None:
    assert means(window((1, [(A, {}), (B, {"cpu": 0})]))) == [(B, {"cpu": 0})]


def test_pods_of_a_node_without_any_resource_are_left_out() -> None:
    filled = PodWindow()
    filled.add(1, 0, filled.matrix([(A, {}), (B, {})], []))
    assert filled.means(0, []) == []


def test_sums_beyond_64_bits_are_exact() -> None:
    huge = 2**63 - 1
    filled = window(*((time, [(A, {"cpu": huge})]) for time in range(3)))
    assert means(filled) == [(A, {"cpu": huge})]


def test_a_number_is_never_used_for_another_member() -> None:
    filled = window((1, [(A, {"cpu": 1})]))
    filled.drop(2)
    filled.prune()
    filled.add(3, 0, filled.matrix([(B, {"cpu": 1})], ["cpu", "memory"]))
    assert filled.members == {B: 1}
    assert filled.size == 3


def test_names_stay_while_a_sample_needs_them() -> None:
    filled = window((1, [(A, {"cpu": 1})]), (2, [(B, {"cpu": 1})]))
    assert filled.drop(2) == [0]
    filled.prune()
    assert list(filled.members) == [B]


_AMOUNTS = st.one_of(st.integers(0, 99), st.sampled_from([2**62, 2**63 - 1]))
_USAGE = st.dictionaries(st.sampled_from(["cpu", "memory"]), _AMOUNTS)


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, unique=True).flatmap(
        lambda names: st.tuples(
            st.just(names),
            st.lists(
                st.lists(_USAGE, min_size=len(names), max_size=len(names)), min_size=1, max_size=6
            ),
        )
    )
)
def test_pods_that_stay_the_same_have_the_means_of_their_samples(
    drawn: tuple[list[str], list[list[dict[str, int]]]],
) -> None:
    names, samples = drawn
    pods: list[Member] = [("default", name, f"uid-{name}", "") for name in names]
    filled = window(
        *((at, list(zip(pods, usages, strict=True))) for at, usages in enumerate(samples))
    )
    expected = []
    for place, member in sorted(enumerate(pods), key=lambda each: each[1]):
        usage = {}
        for resource in ("cpu", "memory"):
            given_ = [each[place][resource] for each in samples if resource in each[place]]
            if given_:
                usage[resource] = sum(given_) // len(given_)
        if usage:
            expected.append((member, usage))
    assert means(filled) == expected


def test_the_order_of_pods_is_found_anew_when_names_were_forgotten() -> None:
    filled = window((1, [(B, {"cpu": 1}), (A, {"cpu": 2})]))
    assert [member for member, _ in means(filled)] == [A, B]
    filled.drop(2)
    filled.prune()
    filled.add(3, 0, filled.matrix([(A, {"cpu": 3}), (B, {"cpu": 4})], ["cpu", "memory"]))
    assert means(filled) == [(A, {"cpu": 3}), (B, {"cpu": 4})]
