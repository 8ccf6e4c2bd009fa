"""The contract: JSON Schema (draft 2020-12) of a message, as published and as refusals quote it.

It differs from pydantic's own where that would allow more than the code does: names of a map keep
all their bounds, and the kind of a record must be given. Fields have no titles, which would only
repeat their names; the string below a field is its description.
"""

from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from schemas.base.docstrings import field_docstrings

JsonSchema = dict[str, Any]


@cache
def adapter(message: Any) -> TypeAdapter[Any]:
    """Validator of a message class, or of the union of several."""
    return TypeAdapter(message)


@cache
def json_schema(message: Any) -> JsonSchema:
    """JSON Schema of a message class, or of the union of several; not to be changed by the caller."""
    return adapter(message).json_schema(schema_generator=Generator)


class Generator(GenerateJsonSchema):
    """Writes JSON Schema as this project publishes it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._made: list[type] = []
        """Classes that are being written, the innermost last."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """A message class; its name is kept for the docstrings of its fields."""
        self._made.append(schema["cls"])
        try:
            return super().model_schema(schema)
        finally:
            self._made.pop()

    def model_fields_schema(self, schema: core_schema.ModelFieldsSchema) -> JsonSchemaValue:
        """The fields of a class, each with the string below it as its description."""
        said = field_docstrings(self._made[-1])
        fields = {
            name: _described(field, said[name]) if name in said else field
            for name, field in schema["fields"].items()
        }
        return super().model_fields_schema({**schema, "fields": fields})

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        """A text that can only be one tells the kind of a record: a reader needs it to be there."""
        inner = field["schema"].get("schema", {})
        return (
            inner.get("type") == "literal" and len(inner["expected"]) == 1
        ) or super().field_is_required(field, total)

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A map; pydantic would write the pattern of its names so that any other name is allowed
        too."""
        written: JsonSchemaValue = {
            "type": "object",
            "propertyNames": self._inner(schema.get("keys_schema")),
            "additionalProperties": self._inner(schema.get("values_schema")),
        }
        self.update_with_validations(written, schema, self.ValidationsMapping.object)
        return written

    def _inner(self, schema: CoreSchema | None) -> JsonSchemaValue:
        return {} if schema is None else self.generate_inner(schema)


def _described(field: core_schema.ModelField, text: str) -> core_schema.ModelField:
    """The field with a description, unless it has one of its own."""
    metadata = field.get("metadata", {})
    updates = {"description": text, **metadata.get("pydantic_js_updates", {})}
    return {**field, "metadata": {**metadata, "pydantic_js_updates": updates}}
