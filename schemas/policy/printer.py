"""Print the effective policy as YAML that reads back to the same policy."""

import math
from typing import Any

import yaml

from schemas.policy.document import Policy
from schemas.policy.parts import PolicyPart
from schemas.policy.yamltext import resolve_scalar


class _Dumper(yaml.SafeDumper):
    """Quotes every text that the reader would not read as text, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML quotes by the rules of YAML 1.1; the reader uses YAML 1.2 ("1e3" is a number). PyYAML's
    # single quotes lose line breaks such as U+0085.
    style = None if resolve_scalar(text) == text and text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_float(dumper: yaml.SafeDumper, number: float) -> yaml.ScalarNode:
    if number.is_integer() and abs(number) < 2**53:
        return dumper.represent_scalar("tag:yaml.org,2002:int", str(int(number)))
    # Without a decimal point PyYAML takes "5e-324" for text and writes a tag.
    text = repr(number)
    text = text if "." in text else text.replace("e", ".0e")
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_float)


def effective_values(part: PolicyPart) -> dict[str, Any]:
    """Return every field of a policy or section with its value, under the names of the document.

    `Policy.document` leaves out some defaults, so that they do not change the digest.
    """
    document, values = part.model_dump(mode="json", exclude_none=True), {}
    for name, field in type(part).model_fields.items():
        key, value = field.alias or name, getattr(part, name)
        if isinstance(value, PolicyPart):
            values[key] = effective_values(value)
        elif key in document or field.exclude_if is not None:
            values[key] = document.get(key, value)
    return values


def effective_yaml(policy: Policy) -> str:
    """Return the policy with all defaults as YAML; reading it gives an equal policy."""
    return yaml.dump(
        effective_values(policy), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )


def inline_yaml(value: Any) -> str:
    """Return a value of a policy as one line of YAML."""
    text = yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=True,
        width=math.inf,
    )
    return text.removesuffix("...\n").strip()  # PyYAML writes "..." after a single scalar
