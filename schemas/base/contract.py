"""JSON Schema (draft 2020-12) of a message, as published and as refusals quote it.

It is stricter than pydantic's schema, which would allow more than the code accepts: map keys keep
all their bounds, and the kind of a record is required. Fields have no titles, which would repeat
their names. The docstring of a field is its description.
"""

from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from schemas.base.docstrings import field_docstrings

JsonSchema = dict[str, Any]


@cache
def get_adapter(message: Any) -> TypeAdapter[Any]:
    """Return the validator of a message class, or of a union of classes."""
    return TypeAdapter(message)


@cache
def build_schema(message: Any) -> JsonSchema:
    """Return the JSON Schema of a message class, or of a union of classes.

    Callers must not change it.
    """
    return get_adapter(message).json_schema(schema_generator=SchemaGenerator)


def resolve_references(schema: JsonSchema, root: JsonSchema) -> JsonSchema:
    """Follow references, and choose the other type of a field that may be null."""
    while True:
        if "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema:
            schema = next(option for option in schema["anyOf"] if option.get("type") != "null")
        else:
            return schema


class SchemaGenerator(GenerateJsonSchema):
    """Writes JSON Schema as this project publishes it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._open_classes: list[type] = []  # the innermost class last

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        self._open_classes.append(schema["cls"])
        try:
            return super().model_schema(schema)
        finally:
            self._open_classes.pop()

    def model_fields_schema(self, schema: core_schema.ModelFieldsSchema) -> JsonSchemaValue:
        docstrings = field_docstrings(self._open_classes[-1])
        fields = {
            name: _add_description(field, docstrings[name]) if name in docstrings else field
            for name, field in schema["fields"].items()
        }
        return super().model_fields_schema({**schema, "fields": fields})

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        """Require fields with a single constant value: readers tell the kind of a record by them."""
        inner = field["schema"].get("schema", {})
        return (
            inner.get("type") == "literal" and len(inner["expected"]) == 1
        ) or super().field_is_required(field, total)

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        # pydantic writes the pattern of the keys in a way that allows any other key, too.
        map_schema: JsonSchemaValue = {
            "type": "object",
            "propertyNames": self._generate(schema.get("keys_schema")),
            "additionalProperties": self._generate(schema.get("values_schema")),
        }
        self.update_with_validations(map_schema, schema, self.ValidationsMapping.object)
        return map_schema

    def _generate(self, schema: CoreSchema | None) -> JsonSchemaValue:
        return {} if schema is None else self.generate_inner(schema)


def _add_description(field: core_schema.ModelField, text: str) -> core_schema.ModelField:
    """Add a description to the field, unless it has one."""
    metadata = field.get("metadata", {})
    updates = {"description": text, **metadata.get("pydantic_js_updates", {})}
    return {**field, "metadata": {**metadata, "pydantic_js_updates": updates}}
