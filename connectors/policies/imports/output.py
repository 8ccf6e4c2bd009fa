"""An imported policy as YAML, with the source line of each value."""

import textwrap
from collections.abc import Iterator
from typing import Any

from connectors.policies.imports.translation import Translation
from schemas.base.printable import to_one_line
from schemas.policy import Policy, inline_yaml
from schemas.policy.errors import Path

_COMPAT = {
    "koordinator": "the file is Koordinator's: loadstream behaves like Koordinator",
    "loadstream": "the file is not Koordinator's: loadstream's own rules apply",
}
_MODE = "evictions are decided and marked dry; enforce carries them out"


def write_policy(translation: Translation, name: str) -> str:
    """Return the policy as text; `name` is the name of the imported file."""
    header = (
        f"Imported from {to_one_line(name)}; comments name the lines of that file. Check it, then run "
        "`loadstream policy apply`. A field that is not named here has its default."
    )
    lines = [
        *textwrap.wrap(
            header, 100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        ),
        "",
        f"mode: observe # {_MODE}",
        f"compat: {translation.compat} # {_COMPAT[translation.compat]}",
    ]
    for field, info in Policy.model_fields.items():
        section = info.alias or field
        if section in translation.values:
            value = {section: translation.values[section]}
            lines += ["", *_write(translation, value, ())]
    return "\n".join(lines) + "\n"


def _write(translation: Translation, value: dict[str, Any], path: Path) -> Iterator[str]:
    indent = "  " * len(path)
    for key, child in value.items():
        at = (*path, key)
        remark = _format_remark(translation, at)
        if isinstance(child, dict) and child:
            yield f"{indent}{inline_yaml(key)}:{remark if ': ' in remark else ''}"
            yield from _write(translation, child, at)
        elif isinstance(child, list) and len(inline_yaml(child)) > 60:
            yield f"{indent}{inline_yaml(key)}:{remark}"
            yield from (f"{indent}  - {inline_yaml(item)}" for item in child)
        else:
            yield f"{indent}{inline_yaml(key)}: {inline_yaml(child)}{remark}"


def _format_remark(translation: Translation, path: Path) -> str:
    """Return a comment with the source line and the note of a value; empty if it has no source."""
    for length in range(len(path), 0, -1):
        if path[:length] in translation.origins:
            origin, note = translation.origins[path[:length]]
            line = origin.child(*path[length:]).line
            return f" # line {line}" + (f": {note}" if note and length == len(path) else "")
    return ""
