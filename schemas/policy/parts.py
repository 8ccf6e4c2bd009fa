"""What every part of a policy document has in common.

A part is frozen, strict (a string is no number, 1 is no truth value) and refuses fields that it
does not know. Fields are written in Koordinator's camelCase; a field that is null counts as not
given, as it does upstream. Rules between fields are reported with the place of each, next to the
field errors.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from schemas.base.message import INT64_MAX, ResourceName
from schemas.policy.errors import Path

T = TypeVar("T")


def whole(low: int, high: int = INT64_MAX) -> AfterValidator:
    """Allows integers from `low` to `high`, and says so when one is outside."""
    allowed = f"an integer from {low} to {high}"
    if high == INT64_MAX:
        allowed = f"an integer of 64 bits, at least {low}"

    def check(value: int) -> int:
        if low <= value <= high:
            return value
        raise PydanticCustomError("allowed", "{allowed}", {"allowed": allowed})

    return AfterValidator(check)


INT32_MAX = 2**31 - 1

Int32 = Annotated[int, whole(-(2**31), INT32_MAX)]
Int64 = Annotated[int, whole(-(2**63), INT64_MAX)]
Count = Annotated[int, whole(0, INT32_MAX)]
Percent = Annotated[int, whole(0, 100)]
PositivePercent = Annotated[int, whole(1, 100)]
#: Most resources that one map may name: a vector of that length is kept for every node.
RESOURCES_MAX = 64
#: A list as a tuple; YAML has lists only.
Items = Annotated[tuple[T, ...], Field(strict=False, max_length=1024)]
Percents = Annotated[dict[ResourceName, Percent], Field(max_length=RESOURCES_MAX)]
Name = Annotated[str, Field(min_length=1, max_length=253)]


def is_false(value: bool) -> bool:
    """Not given is as good as false, and leaves digests of policies as they were."""
    return not value


@dataclass(frozen=True, slots=True)
class Conflict:
    """Fields that are each well-formed and do not go together."""

    at: Path
    """Where to look, from the part that reports it."""
    message: str
    reads: tuple[str, ...]
    """Fields of that part which the rule looked at: the rule is void while one of them is wrong."""


def repeated(field: str, names: Iterable[str], rule: str) -> Iterator[Conflict]:
    """Entries of a list that are named like one before them.

    Args:
        field: the part's field that holds the list.
        names: the entries' names, in their order.
        rule: what a name that comes again breaks, as the message ends.
    """
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            message = f"found {name!r} a second time; {rule}"
            yield Conflict((field, index, "name"), message, (field,))
        seen.add(name)


def refuse(title: str, conflicts: Iterable[Conflict], data: Any) -> None:
    """Raise the conflicts, if there are any, as errors at their places."""
    details = [
        InitErrorDetails(
            type=PydanticCustomError(
                "conflict",
                "{message}",
                {"message": each.message, "depth": len(each.at), "reads": each.reads},
            ),
            loc=each.at,
            input=data,
        )
        for each in conflicts
    ]
    if details:
        raise ValidationError.from_exception_data(title, details)


def field_names(model: type[BaseModel]) -> list[str]:
    """Names of a model's fields as a document writes them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def inner_model(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation such as `tuple[Model, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        if model := inner_model(argument):
            return model
    return None


def is_default(part: "PolicyPart") -> bool:
    """Not given is as good as the defaults, and leaves digests of policies as they were."""
    return part == type(part)()


class PolicyPart(BaseModel):
    """A part of the document."""

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
        # A process uses a few of the parts, and builds their validators when it first does.
        defer_build=True,
    )

    def conflicts(self) -> Iterable[Conflict]:
        """Rules between fields that this part breaks."""
        return ()

    @model_validator(mode="before")
    @classmethod
    def _null_is_not_given(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = field_names(cls)
        return {key: value for key, value in data.items() if value is not None or key not in known}

    @model_validator(mode="after")
    def _check(self) -> "PolicyPart":
        refuse(type(self).__name__, self.conflicts(), None)
        return self
