"""Docstrings of fields: the string literal below a field.

pydantic can read them, too, but only when it builds each class, which doubles the import time. Here
they are read only when a schema is published.
"""

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from types import ModuleType


@cache
def field_docstrings(model: type) -> Mapping[str, str]:
    """Return the docstring of each field, without indentation; inherited fields included.

    A field that a class redefines does not inherit the docstring of the base class.
    """
    docstrings: dict[str, str] = {}
    for base in reversed(model.__mro__):
        defined_here = _read_docstrings(base)
        for name in inspect.get_annotations(base):
            docstrings.pop(name, None)
            if name in defined_here:
                docstrings[name] = defined_here[name]
    return docstrings


def _read_docstrings(model: type) -> dict[str, str]:
    module = inspect.getmodule(model)
    if module is None or module.__name__ == "builtins":
        return {}
    statements = _classes(module).get(model.__name__, ())
    return {
        field.target.id: inspect.cleandoc(below.value.value.strip())
        for field, below in pairwise(statements)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


@cache
def _classes(module: ModuleType) -> Mapping[str, list[ast.stmt]]:
    """Return the statements of each class of a module, by name; empty without source code."""
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):  # created at run time, or compiled
        return {}
    classes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    return {node.name: node.body for node in classes}
