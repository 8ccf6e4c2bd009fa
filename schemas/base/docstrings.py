"""What the string below a field says of it.

pydantic would read these strings when each class is made, which takes half of the time that the
classes take to import; they are wanted in published schemas only.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from types import ModuleType


@cache
def field_docstrings(made: type) -> Mapping[str, str]:
    """Field to the string below it, also of fields that a class inherits; cleaned of indentation.

    A field that a class writes anew does not keep the string of its base.
    """
    found: dict[str, str] = {}
    for each in reversed(made.__mro__):
        own = _own_docstrings(each)
        for name in inspect.get_annotations(each):
            found.pop(name, None)
            if name in own:
                found[name] = own[name]
    return found


def _own_docstrings(made: type) -> dict[str, str]:
    module = inspect.getmodule(made)
    if module is None or module.__name__ == "builtins":
        return {}
    statements = _classes(module).get(made.__qualname__, ())
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(statements)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


@cache
def _classes(module: ModuleType) -> Mapping[str, list[ast.stmt]]:
    """Qualified name of each class of a module, to its statements; none where there is no source."""
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):  # made while it runs, or compiled
        return {}
    return dict(_classes_below(ast.parse(source), ""))


def _classes_below(node: ast.AST, prefix: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, child.body
            yield from _classes_below(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes_below(child, f"{prefix}{child.name}.<locals>.")
        else:
            yield from _classes_below(child, prefix)
