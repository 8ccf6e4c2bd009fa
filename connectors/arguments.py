"""Arguments of commands that become fields of a record: checked as the record's schema says, before anything is done."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel


def as_field(record: "Callable[[], type[BaseModel]]", name: str) -> Callable[[Any], Any]:
    """Checks an argument as the field of the record that it becomes.

    Args:
        record: imports the record's class, which is not done before a command runs.
        name: of the field.
    """

    def check(value: Any) -> Any:
        from pydantic import TypeAdapter, ValidationError

        field = record().model_fields[name]
        checked: Any = field.annotation
        if field.metadata:
            checked = Annotated[field.annotation, *field.metadata]
        try:
            TypeAdapter(checked).validate_python(value)
        except ValidationError as error:
            raise typer.BadParameter(error.errors()[0]["msg"]) from None
        return value

    return check
