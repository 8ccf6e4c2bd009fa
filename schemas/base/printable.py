"""Text of others as text and as nothing else, whatever is printed with it.

Names, keys and values come from outside. A control character in one (of C0 or C1: they move the
cursor, set colours, type into the shell), a bidirectional or an invisible one (they let text read
as other text), a line separator or a lone surrogate must not reach a terminal: `printable` puts a
blank in its place, `json_text` and `yaml_text` escape it, so that what is piped on stays what it
was.
"""

import re

#: All but printable ASCII: what is looked at more closely. `str.isprintable` refuses the categories
#: Cc, Cf, Cs, Co, Cn, Zl, Zp, and Zs but for the blank.
_SUSPECT = re.compile(r"[^\x20-\x7e]")


def printable(text: str) -> str:
    """The text with a blank for each character that is not printable; line ends stay."""
    return _SUSPECT.sub(lambda found: _shown(found[0], " "), text)


def one_line(text: str) -> str:
    """The same, with a blank for line ends as well."""
    return printable(text).replace("\n", " ")


def json_text(value: bytes | str) -> str:
    """JSON with such characters escaped: they can only be within strings there."""
    text = value.decode() if isinstance(value, bytes) else value
    return _SUSPECT.sub(lambda found: _shown(found[0], _json_escape(found[0])), text)


def yaml_text(text: str) -> str:
    """YAML whose scalars with such characters are in double quotes, with these escaped."""
    return _SUSPECT.sub(lambda found: _shown(found[0], f"\\U{ord(found[0]):08x}"), text)


def _shown(character: str, instead: str) -> str:
    return character if character == "\n" or character.isprintable() else instead


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
