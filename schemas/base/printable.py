"""Make foreign text safe to print.

Names, keys and values come from outside. Control characters can move the cursor, set colours or type
into the shell; bidirectional and invisible characters can make text look like other text; line
separators and lone surrogates break parsers. `replace_unprintable` replaces such characters with
blanks. `escape_json` and `escape_yaml` escape them, so piped data keeps its value.
"""

import re

#: Everything except printable ASCII. `str.isprintable` then rejects the Unicode categories Cc, Cf, Cs, Co,
#: Cn, Zl, Zp, and Zs except the blank.
_SUSPECT = re.compile(r"[^\x20-\x7e]")


def replace_unprintable(text: str) -> str:
    """Replace each unprintable character with a blank; line breaks stay."""
    return _SUSPECT.sub(lambda match: _replace(match[0], " "), text)


def to_one_line(text: str) -> str:
    """Replace each unprintable character and each line break with a blank."""
    return replace_unprintable(text).replace("\n", " ")


def escape_json(value: bytes | str) -> str:
    """Escape unprintable characters in JSON, where they can only be in strings."""
    text = value.decode() if isinstance(value, bytes) else value
    return _SUSPECT.sub(lambda match: _replace(match[0], _json_escape(match[0])), text)


def escape_yaml(text: str) -> str:
    """Escape unprintable characters in YAML whose affected scalars are in double quotes."""
    return _SUSPECT.sub(lambda match: _replace(match[0], f"\\U{ord(match[0]):08x}"), text)


def _replace(character: str, replacement: str) -> str:
    return character if character == "\n" or character.isprintable() else replacement


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
