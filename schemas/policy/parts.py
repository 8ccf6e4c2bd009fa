"""Base class of the sections of a policy, and types of their fields.

A section is frozen, strict (a string is not a number, 1 is not a boolean) and refuses unknown fields.
Fields have Koordinator's camelCase names. A null field counts as not given, as in Koordinator. Rules
between fields are reported with the path of the field, like errors of single fields.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from schemas.base.message import INT64_MAX, ResourceName
from schemas.policy.errors import Path, not_allowed

T = TypeVar("T")


def int_range(low: int, high: int = INT64_MAX) -> AfterValidator:
    """Allow integers from `low` to `high`; the error names the range."""
    allowed = f"an integer from {low} to {high}"
    if high == INT64_MAX:
        allowed = f"an integer of 64 bits, at least {low}"

    def check(value: int) -> int:
        if low <= value <= high:
            return value
        raise not_allowed(allowed)

    return AfterValidator(check)


INT32_MAX = 2**31 - 1

Int32 = Annotated[int, int_range(-(2**31), INT32_MAX)]
Int64 = Annotated[int, int_range(-(2**63), INT64_MAX)]
Count = Annotated[int, int_range(0, INT32_MAX)]
Percent = Annotated[int, int_range(0, 100)]
PositivePercent = Annotated[int, int_range(1, 100)]
#: Most resources in one map: a vector of this length is kept for every node.
RESOURCES_MAX = 64
#: Most node pools: each selector is compared with the labels of each node, and the collect policy of
#: each pool is written to each partition of samples.
NODE_POOLS_MAX = 64
#: A tuple; YAML only has lists.
Items = Annotated[tuple[T, ...], Field(strict=False, max_length=1024)]
#: Values by resource.
ResourceMap = Annotated[dict[ResourceName, T], Field(max_length=RESOURCES_MAX)]
Name = Annotated[str, Field(min_length=1, max_length=253)]


def is_false(value: bool) -> bool:
    """Used with `exclude_if`: a field that is false does not change the digest of a policy."""
    return not value


@dataclass(frozen=True, slots=True)
class Conflict:
    """Fields that are valid alone but not together."""

    at: Path
    """Path from the part that reports the conflict."""
    message: str
    reads: tuple[str, ...]
    """Fields that the rule uses; the conflict is ignored if one of them is invalid."""


def find_repeated(part: "PolicyPart", field: str) -> Iterator[Conflict]:
    """Yield a conflict for each entry of a list with the name of an earlier entry."""
    seen: set[str] = set()
    for index, entry in enumerate(getattr(part, field)):
        if entry.name in seen:
            message = f"found {entry.name!r} a second time; expected one entry"
            yield Conflict((field, index, "name"), message, (field,))
        seen.add(entry.name)


def find_wrong_order(part: "PolicyPart", low: str, high: str) -> Iterator[Conflict]:
    """Yield a conflict if the first length of something that grows exceeds the longest length."""
    first, longest = getattr(part, low), getattr(part, high)
    if longest < first:
        names = (to_camel(low), to_camel(high))
        message = (
            f"{names[0]} is {first} and {names[1]} is {longest}; the maximum must not be smaller"
        )
        yield Conflict((names[high in part.model_fields_set],), message, names)


def raise_conflicts(title: str, conflicts: Iterable[Conflict], data: Any) -> None:
    """Raise a ValidationError with all conflicts, if there are any."""
    details = [
        InitErrorDetails(
            type=PydanticCustomError(
                "conflict",
                "{message}",
                {"message": conflict.message, "depth": len(conflict.at), "reads": conflict.reads},
            ),
            loc=conflict.at,
            input=data,
        )
        for conflict in conflicts
    ]
    if details:
        raise ValidationError.from_exception_data(title, details)


def get_alias(model: type[BaseModel], field: str) -> str:
    """Return the name of a field as written in a document."""
    return model.model_fields[field].alias or field


def field_names(model: type[BaseModel]) -> list[str]:
    """Return the names of a model's fields as written in a document."""
    return [field.alias or name for name, field in model.model_fields.items()]


def inner_model(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as `tuple[Model, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        if model := inner_model(argument):
            return model
    return None


def is_default(part: "PolicyPart") -> bool:
    """Used with `exclude_if`: a section with defaults does not change the digest of a policy."""
    return part == type(part)()


class PolicyPart(BaseModel):
    """Base class of sections and their parts."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        # A process uses few of the parts. Their validators are built at first use.
        defer_build=True,
    )

    def conflicts(self) -> Iterable[Conflict]:
        """Return the violated rules between fields."""
        return ()

    @model_validator(mode="before")
    @classmethod
    def _drop_null_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        names = field_names(cls)
        return {key: value for key, value in data.items() if value is not None or key not in names}

    @model_validator(mode="after")
    def _check(self) -> "PolicyPart":
        raise_conflicts(type(self).__name__, self.conflicts(), None)
        return self
