"""The published documents: one JSON Schema per topic and table, and one AsyncAPI document of all topics.

They are generated from the classes and checked in under `schemas/published`. A test compares them
with the classes.
"""

import json
from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Any

import yaml

from schemas.base import contract
from schemas.examples import EXAMPLES
from schemas.publish import asyncapi
from schemas.storage.tables import TABLES, Table
from schemas.topics.catalog import PARTITIONS_DEFAULT, TOPICS, Topic, key_of

#: Directory of the checked-in documents.
PUBLISHED = Path(__file__).parents[1] / "published"

ASYNCAPI_FILE = "asyncapi.yaml"

#: Marks generated documents; `write` removes no other files.
_GENERATED = "Generated from the"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def documents() -> Mapping[str, str]:
    """Return the text of every document by file name."""
    files = {f"{topic.name}.json": _json(_topic_schema(topic)) for topic in TOPICS}
    files |= {f"{table.name}.json": _json(_table_schema(table)) for table in TABLES}
    return files | {ASYNCAPI_FILE: _yaml(asyncapi.document())}


def write(directory: Path = PUBLISHED) -> list[str]:
    """Update a directory and return the names of changed files. Raises OSError.

    Documents of removed topics and tables are deleted; files that were not generated stay.
    """
    changed = differences(directory)
    directory.mkdir(parents=True, exist_ok=True)
    files = documents()
    for name in changed:
        if name in files:
            (directory / name).write_text(files[name], encoding="utf-8")
        else:
            (directory / name).unlink()
    return changed


def differences(directory: Path = PUBLISHED) -> list[str]:
    """Return the names of files that are missing, outdated, or no longer generated.

    Raises OSError.
    """
    generated, existing = documents(), {}
    for path in (*directory.glob("*.json"), *directory.glob("*.yaml")):
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if path.name in generated or _GENERATED in text:
                existing[path.name] = text
    return [
        name
        for name in sorted(existing.keys() | generated.keys())
        if existing.get(name) != generated.get(name)
    ]


def _topic_schema(topic: Topic) -> dict[str, Any]:
    examples = EXAMPLES[topic.name]
    # `oneOf` and constants already distinguish the kinds; `discriminator` is a keyword of OpenAPI.
    schema = {
        name: value
        for name, value in contract.build_schema(topic.message).items()
        if name != "discriminator"
    }
    keys = sorted({key_of(topic.name, example) for example in examples})
    return {
        "$schema": _DIALECT,
        "$id": f"urn:loadstream:topic:{topic.name}:1",
        "$comment": f"{_GENERATED} message classes; change those.",
        "x-kafka": {
            "topic": topic.name,
            "key": asyncapi.key_schema(topic.key, keys),
            "partitioner": asyncapi.partitioner(topic),
            "partitions": PARTITIONS_DEFAULT,
            "configuration": asyncapi.topic_settings(topic),
        },
        **schema,
        "description": f"{topic.summary} {schema.get('description', '')}".rstrip(),
        "examples": [example.payload() for example in examples],
    }


def _table_schema(table: Table) -> dict[str, Any]:
    return {
        "$schema": _DIALECT,
        "$id": f"urn:loadstream:table:{table.name}:1",
        "$comment": f"{_GENERATED} row classes; change those.",
        **contract.build_schema(reduce(or_, table.rows.values())),
        "title": table.name,
        "description": f"{table.summary} The key of a row is partition/cluster/kind/name. Kinds: "
        f"{', '.join(table.rows)}.",
    }


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


class _Dumper(yaml.SafeDumper):
    """Writes YAML for people: multi-line text as a block, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _yaml(document: Mapping[str, Any]) -> str:
    head = f"# {_GENERATED} message classes; change those.\n"
    return head + yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )
