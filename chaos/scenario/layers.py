"""Settings from several places become one: defaults below, the file above, single values on top.

Works on plain documents and keeps the origin of every value, so that an error still names the place it came
from. Knows of the format only which keys shut each other out.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from chaos.scenario.problems import Origin, Path
from chaos.scenario.yaml_text import Document

# Of these only one can stand: one given above drops those from below instead of clashing with them.
_SHUT_OUT: dict[tuple[str | int, str], tuple[str, ...]] = {
    ("job", "run"): ("command",),
    ("job", "command"): ("run", "args"),  # args are the trainer's
    ("target", "rank"): ("ranks",),
    ("target", "ranks"): ("rank",),
}


def merged(below: Document, above: Document) -> Document:
    """Mappings join key by key; lists and single values are replaced as a whole."""
    result = Document(copy.deepcopy(below.value), dict(below.origins))
    _merge(result, above, (), result.value, above.value)
    return result


def _merge(result: Document, above: Document, path: Path, low: dict[str, Any], high: Mapping[str, Any]) -> None:
    for key in high:
        for rival in _rivals((*path, key)):
            if rival not in high and rival in low:
                _forget(result, (*path, rival))
                del low[rival]
    for key, value in high.items():
        inner = (*path, key)
        if isinstance(value, dict) and isinstance(low.get(key), dict):
            result.origins[inner] = above.origin(inner)
            _merge(result, above, inner, low[key], value)
            continue
        _forget(result, inner)
        low[key] = copy.deepcopy(value)
        result.origins.update({p: o for p, o in above.origins.items() if p[: len(inner)] == inner})


def put(document: Document, path: Path, value: Any, origin: Origin) -> None:
    """Sets one value in place, making the mappings on the way; IndexError for a list entry that is not there."""
    holder = document.value
    for depth, part in enumerate(path[:-1]):
        if isinstance(holder, list):
            holder = holder[int(part)]
            continue
        if not isinstance(holder.get(part), dict | list):
            holder[part] = {}
            document.origins[path[: depth + 1]] = origin
        holder = holder[part]
    last = path[-1]
    if isinstance(holder, dict):
        for rival in _rivals(path):
            holder.pop(rival, None)
    _forget(document, path)
    holder[last if isinstance(holder, dict) else int(last)] = copy.deepcopy(value)
    document.origins[path] = origin


def _rivals(path: Path) -> tuple[str, ...]:
    return _SHUT_OUT.get((path[-2], str(path[-1])), ()) if len(path) > 1 else ()


def _forget(document: Document, path: Path) -> None:
    for known in [known for known in document.origins if known[: len(path)] == path]:
        del document.origins[known]
