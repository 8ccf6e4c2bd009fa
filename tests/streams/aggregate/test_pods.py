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


def test_of_two_pods_of_one_name_the_one_seen_last_is_told() -> None:
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
