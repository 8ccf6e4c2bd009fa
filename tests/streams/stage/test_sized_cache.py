"""The cache that is bounded by bytes."""

from hypothesis import given
from hypothesis import strategies as st

from streams.stage.sized_cache import SizedCache


@given(
    st.lists(
        st.tuples(st.sampled_from(("put", "renew", "drop")), st.integers(0, 6), st.integers(0, 40))
    )
)
def test_the_cache_stays_within_its_bounds(
    history: list[tuple[str, int, int]],
) -> None:
    cache = SizedCache[int, int](bytes_max=60, entries_max=4)
    model: dict[int, int] = {}
    for operation, key, size in history:
        if operation == "put":
            cache.put(key, size, size)
            model.pop(key, None)
            while model and (sum(model.values()) + size > 60 or len(model) >= 4):
                del model[next(iter(model))]
            model[key] = size
        elif operation == "renew":
            assert cache.renew(key) == model.get(key)
            if key in model:
                model[key] = model.pop(key)
        else:
            cache.drop(key)
            model.pop(key, None)
        assert [cache.get(number) for number in range(7)] == [model.get(n) for n in range(7)]
        assert (cache.bytes, len(cache)) == (sum(model.values()), len(model))
        assert cache.bytes <= 60


def test_an_entry_larger_than_the_cache_is_not_kept() -> None:
    cache = SizedCache[str, int](bytes_max=10, entries_max=9)
    cache.put("small", 1, 3)
    cache.put("large", 2, 11)
    assert (cache.get("small"), cache.get("large"), cache.bytes) == (1, None, 3)
    cache.put("small", 3, 11)
    assert (len(cache), cache.bytes) == (0, 0)
    cache.put("small", 1, 3)
    cache.clear()
    assert (len(cache), cache.bytes) == (0, 0)
