"""Kubernetes quantities are read like k8s.io/apimachinery reads them."""

import re
from fractions import Fraction
from typing import Annotated

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, ValidationError

from schemas.base.quantities import (
    QUANTITY_PATTERN,
    QUANTITY_TEXT_MAX,
    QuantityError,
    format_amount,
    parse_amount,
    parse_amounts,
    parse_nanos,
    round_amount,
)

#: Texts by the pattern of messages, with a sign.
QUANTITY_TEXTS: TypeAdapter[str] = TypeAdapter(
    Annotated[str, Field(max_length=QUANTITY_TEXT_MAX, pattern=QUANTITY_PATTERN)]
)
INT64_MAX = 2**63 - 1
UNIT = 10**9
MULTIPLIERS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip

READINGS = [
    # text, nanos, milli value, value
    ("0", 0, 0, 0),
    ("00", 0, 0, 0),
    ("-0", 0, 0, 0),
    ("+1", UNIT, 1000, 1),
    ("007", 7 * UNIT, 7000, 7),
    ("250m", 250_000_000, 250, 1),
    ("1.5Gi", 1_610_612_736 * UNIT, 1_610_612_736_000, 1_610_612_736),
    ("1e3", 1000 * UNIT, 1_000_000, 1000),
    ("1E3", 1000 * UNIT, 1_000_000, 1000),
    ("1e+3", 1000 * UNIT, 1_000_000, 1000),
    ("1e-3", 1_000_000, 1, 1),
    ("1e007", 10**7 * UNIT, 10**10, 10**7),
    ("1.e2", 100 * UNIT, 100_000, 100),
    ("1E", 10**18 * UNIT, INT64_MAX, 10**18),
    ("2582039212n", 2_582_039_212, 2583, 3),
    ("100u", 100_000, 1, 1),
    (".5", 500_000_000, 500, 1),
    ("5.", 5 * UNIT, 5000, 5),
    ("1.2341", 1_234_100_000, 1235, 2),
    ("1500m", 1_500_000_000, 1500, 2),
    ("0.1n", 1, 1, 1),
    ("1.0000000001", 1_000_000_001, 1001, 2),
    ("0.5000004m", 500_001, 1, 1),
    ("0.4999995m", 500_000, 1, 1),
    ("1e-400", 1, 1, 1),
    ("0e400", 0, 0, 0),
    ("0.1Ki", 102_400_000_000, 102_400, 103),
    ("0.0000000001Ki", 103, 1, 1),
    ("-1.2341", -1_234_100_000, -1235, -2),
    ("-0.1n", -1, -1, -1),
    ("-5.5Gi", -5_905_580_032 * UNIT, -5_905_580_032_000, -5_905_580_032),
    ("7Ei", 7 * 2**60 * UNIT, INT64_MAX, 7 * 2**60),
    ("8Ei", INT64_MAX * UNIT, INT64_MAX, INT64_MAX),
    ("-8.5Ei", -INT64_MAX * UNIT, -INT64_MAX, -INT64_MAX),
    # Undefined in Kubernetes, capped here.
    ("10E", INT64_MAX * UNIT, INT64_MAX, INT64_MAX),
    ("1e999999999999999999", INT64_MAX * UNIT, INT64_MAX, INT64_MAX),
    ("1e-999999999999999999", 1, 1, 1),
]

REFUSALS = [
    "", " ", " 1", "1 ", "1\n", "1 Gi", "1.5.5", "1..5", "--1", "+-1", "1-", "1K", "1ki", "1KI",
    "1kib", "1i", ".5i", "1mi", "1am", "1GiB", "1e", "1e+", "1e1.5", "1ee1", "1e1e1", "1e3Ki", "1Ee", "0x10",
    "1_000", "1,5", "NaN", "Inf", "-Infinity", "aoeu", "1.1.M", "1+1.0M", "-3.01e-", "\u0661", "1\u00b2",
    # Without a digit: forbidden by the grammar of Kubernetes.
    ".", "-", "+", "Gi", "m", ".Ki", "e3", "E",
    # An exponent that is no int64.
    "1e99999999999999999999",
    "1" * (QUANTITY_TEXT_MAX + 1),
    "1" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize(("text", "exact", "milli", "value"), READINGS)
def test_quantities_are_read_as_in_kubernetes(
    text: str, exact: int, milli: int, value: int
) -> None:
    assert parse_nanos(text) == exact
    assert round_amount("cpu", exact) == milli
    assert round_amount("memory", exact) == value
    QUANTITY_TEXTS.validate_python(text)


@pytest.mark.parametrize("text", REFUSALS)
def test_invalid_quantities_are_refused_and_quoted(text: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse_nanos(text)
    assert repr(text[:20])[:-1] in str(refusal.value)
    assert len(str(refusal.value)) < 300
    with pytest.raises(ValidationError):
        QUANTITY_TEXTS.validate_python(text)


def test_cpu_is_in_millicores_and_other_resources_are_integers() -> None:
    resources = {"memory": "1500m", "cpu": "1.2341", "kubernetes.io/batch-cpu": "1.2341"}
    assert parse_amounts(resources) == {"memory": 2, "cpu": 1235, "kubernetes.io/batch-cpu": 2}
    assert list(parse_amounts(resources)) == ["memory", "cpu", "kubernetes.io/batch-cpu"]
    assert parse_amounts({}) == {}
    assert parse_amount("cpu", "100m") == 100
    assert parse_amount("CPU", "100m") == 1


def test_a_sum_is_rounded_once() -> None:
    assert round_amount("cpu", parse_nanos("0.5000004m") + parse_nanos("0.4999995m")) == 2
    assert round_amount("cpu", parse_nanos("0.5m") + parse_nanos("0.5m")) == 1


NUMBERS = st.one_of(
    st.from_regex(r"[0-9]{1,25}", fullmatch=True),
    st.from_regex(r"[0-9]{0,12}\.[0-9]{1,14}", fullmatch=True),
    st.from_regex(r"[0-9]{1,12}\.", fullmatch=True),
)


@given(
    sign=st.sampled_from(["", "+", "-"]),
    number=NUMBERS,
    scale=st.one_of(
        st.sampled_from(list(MULTIPLIERS.items())),
        st.builds(
            lambda e, n: (f"{e}{n}", Fraction(10) ** n),
            st.sampled_from("eE"), st.integers(-30, 30),
        ),
    ),
)  # fmt: skip
def test_quantities_equal_rational_arithmetic(
    sign: str, number: str, scale: tuple[str, Fraction]
) -> None:
    suffix, factor = scale
    exact = Fraction(f"0{number}0" if "." in number else number) * factor * UNIT
    expected = min(-(-exact.numerator // exact.denominator), INT64_MAX * UNIT)
    assert parse_nanos(sign + number + suffix) == (-expected if sign == "-" else expected)


@given(st.integers(-(2**80), 2**80))
def test_integers_are_rounded_away_from_zero(exact: int) -> None:
    for resource, unit in (("cpu", 10**6), ("memory", UNIT)):
        rounded = round_amount(resource, exact)
        assert rounded == -round_amount(resource, -exact)
        if abs(rounded) < INT64_MAX:
            assert 0 <= abs(rounded) * unit - abs(exact) < unit
            assert rounded * exact >= 0


@given(
    st.one_of(
        st.text(alphabet="0123456789.+-eEinumkKMGTP \n\u0661", max_size=12),
        st.text(max_size=QUANTITY_TEXT_MAX + 2),
        st.from_regex(
            re.compile(r"[+-]?[0-9]*\.?[0-9]*[a-zA-Z]{0,2}[+-]?[0-9]{0,20}"), fullmatch=True
        ),
    )
)
@example("1" * QUANTITY_TEXT_MAX)
@example("1e0000000000000000001")
def test_messages_accept_exactly_the_readable_quantities(text: str) -> None:
    try:
        parse_nanos(text)
        readable = True
    except QuantityError:
        readable = False
    try:
        QUANTITY_TEXTS.validate_python(text)
        accepted = True
    except ValidationError:
        accepted = False
    assert accepted == readable


@pytest.mark.parametrize(
    ("resource", "number", "text"),
    [
        ("cpu", 876, "876m"),
        ("memory", 3 * 2**28, "768Mi"),
        ("memory", 2**20 + 2**19 + 1, "2Mi"),
        ("memory", 1000, "1000"),
        ("nvidia.com/gpu", 2, "2"),
    ],
)
def test_an_amount_is_written_with_its_unit(resource: str, number: int, text: str) -> None:
    assert format_amount(resource, number) == text
