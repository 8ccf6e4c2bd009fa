"""The published documents: one JSON Schema per topic and table, and one AsyncAPI document of all
topics.

They are generated from the classes, checked in under `schemas/published`, and held to the classes
by a test. The same classes give the same bytes.
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

#: Where the documents are checked in.
PUBLISHED = Path(__file__).parents[1] / "published"

ASYNCAPI_FILE = "asyncapi.yaml"

#: Keywords beside those of JSON Schema; a validator in strict mode wants them declared.
KEYWORDS = ("unit", "x-kafka")
#: Words by which a document that was written here is known among files of others.
_GENERATED = "Generated from the"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def documents() -> Mapping[str, str]:
    """File name to text of every document, in the order of the data's path."""
    files = {f"{topic.name}.json": _json(_topic_schema(topic)) for topic in TOPICS}
    files |= {f"{table.name}.json": _json(_table_schema(table)) for table in TABLES}
    return files | {ASYNCAPI_FILE: _yaml(asyncapi.document())}


def write(directory: Path = PUBLISHED) -> list[str]:
    """Bring a directory up to date; answers with the names of the files that changed.

    Documents of topics and tables that there are no more are removed; files of others stay.
    Raises OSError.
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
    """Names of the files that are missing, other than generated, or generated no more.

    Raises OSError.
    """
    wanted, found = documents(), {}
    for path in (*directory.glob("*.json"), *directory.glob("*.yaml")):
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if path.name in wanted or _GENERATED in text:
                found[path.name] = text
    return [
        name for name in sorted(found.keys() | wanted.keys()) if found.get(name) != wanted.get(name)
    ]


def _topic_schema(topic: Topic) -> dict[str, Any]:
    examples = EXAMPLES[topic.name]
    # Which kind a record is, follows from `oneOf` and constants; `discriminator` is a word of
    # OpenAPI.
    schema = {
        name: value
        for name, value in contract.json_schema(topic.message).items()
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
        **contract.json_schema(reduce(or_, table.rows.values())),
        "title": table.name,
        "description": f"{table.summary} The key of a row is partition/cluster/kind/name; of these kinds: "
        f"{', '.join(table.rows)}.",
    }


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


class _Dumper(yaml.SafeDumper):
    """YAML for people: text of several lines as it is, nothing by reference."""

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
