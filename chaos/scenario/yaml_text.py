"""YAML 1.2 text → plain values, with the line of every value kept beside them.

Works on the node graph of ruamel.yaml's pure loader, so that no scalar type of its own leaves this file, and
that duplicate keys, aliases and tags are judged here. Knows nothing of scenarios.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from chaos.scenario.problems import Origin, Path, Problem, dotted, found, invalid

BYTES_MAX = 128 * 1024
DEPTH_MAX = 24
VALUES_MAX = 5_000  # aliases count each time: a few lines of them can stand for billions of values

_TAG = "tag:yaml.org,2002:"


@dataclass(slots=True)
class Document:
    """Plain values (dict, list, str, int, float, bool, None) and where each came from, by path."""

    value: Any
    origins: dict[Path, Origin] = field(default_factory=dict)

    def origin(self, path: Path) -> Origin:
        """Of the value, or of the nearest thing around it that is there."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return Origin("scenario")


def read_text(file: FilePath, shown_as: str) -> str:
    """The text of a file; ScenarioInvalid when it cannot be read as UTF-8 text."""
    origin = Origin(shown_as)
    try:
        if file.exists() and not file.is_file() and not file.is_dir():
            raise OSError("not a regular file")  # opening a pipe would wait for its writer
        with file.open("rb") as stream:
            raw = stream.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise invalid([Problem(origin, "", f"cannot be read: {reason}")]) from None
    if len(raw) > BYTES_MAX:
        raise invalid([Problem(origin, "", f"larger than {BYTES_MAX // 1024} KiB; a scenario is a page of text")])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        text = f"not UTF-8: byte 0x{raw[error.start]:02x}; save the file as UTF-8"
        raise invalid([Problem(Origin(shown_as, line), "", text)]) from None


def parse(text: str, shown_as: str) -> Document:
    """The one document in the text; ScenarioInvalid naming file and line for anything else."""
    _refuse_by_line(text, shown_as)
    node = _compose(text, shown_as)
    if node is None:
        raise invalid([Problem(Origin(shown_as, 1), "", "empty; a scenario starts with its `schema:` line")])
    return _Plain(shown_as).document(node)


def _refuse_by_line(text: str, shown_as: str) -> None:
    """What the parser would report in words that help nobody, or would let through."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("%") and not line.startswith("%YAML 1.2"):
            raise invalid([Problem(Origin(shown_as, number), "", f"directive {found(line)}; files are YAML 1.2")])
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise invalid([Problem(Origin(shown_as, number), "", "a tab in the indentation; indent with spaces")])


def _compose(text: str, shown_as: str) -> Node | None:
    loader = YAML(typ="safe", pure=True)  # the round-trip loader leaves marks of its own in folded text
    loader.max_depth = DEPTH_MAX
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the loader's hints about its own API reach no user
            return loader.compose(text)  # type: ignore[no-any-return]
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = " ".join(part for part in (error.context, error.problem) if part)
        line = mark.line + 1 if mark is not None else None
        raise invalid([Problem(Origin(shown_as, line), "", f"not valid YAML: {_in_words(words)}")]) from None
    except YAMLError as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        position = getattr(error, "position", None)  # of a character that no YAML text may hold
        line = text.count("\n", 0, position) + 1 if isinstance(position, int) else None
        raise invalid([Problem(Origin(shown_as, line), "", f"not valid YAML: {words}")]) from None
    except Exception as error:
        # The parser gives up in many ways on text that nobody wrote by hand; none of them is a defect of ours.
        raise invalid([Problem(Origin(shown_as), "", f"not valid YAML ({type(error).__name__})")]) from None


def _in_words(words: str) -> str:
    if "single document" in words:
        return "a second document (`---`); one file holds one scenario"
    if "max_depth" in words or "depth" in words:
        return f"nested more than {DEPTH_MAX} levels deep"
    return words


class _Plain:
    """One pass over the node graph of one text."""

    def __init__(self, shown_as: str) -> None:
        self._shown_as = shown_as
        self._problems: list[Problem] = []
        self._origins: dict[Path, Origin] = {}
        self._open: set[int] = set()
        self._left = VALUES_MAX

    def document(self, node: Node) -> Document:
        value = self._value(node, ())
        if self._problems:
            raise invalid(self._problems)
        return Document(value, self._origins)

    def _value(self, node: Node, path: Path) -> Any:
        origin = self._origin(node)
        # An alias stands where its anchor is; its use is what the reader looks for, so the first mark wins.
        self._origins.setdefault(path, origin)
        self._left -= 1
        if self._left < 0:
            raise invalid([Problem(origin, "", f"more than {VALUES_MAX} values once its aliases are followed")])
        if id(node) in self._open:
            raise invalid([Problem(origin, dotted(path), "an alias that contains itself")])
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        self._open.add(id(node))
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            return self._sequence(node, path)
        finally:
            self._open.discard(id(node))

    def _sequence(self, node: Node, path: Path) -> list[Any]:
        assert isinstance(node, SequenceNode)
        self._check_tag(node, "seq", path)
        return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        self._check_tag(node, "map", path)
        result: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            line = key_node.start_mark.line + 1
            if key in lines:
                self._say(key_node, (*path, key), f"given twice; first on line {lines[key]}")
                continue
            lines[key] = line
            self._origins[(*path, key)] = Origin(self._shown_as, line)
            result[key] = self._value(value_node, (*path, key))
        return result

    def _key(self, node: Node, path: Path) -> str | None:
        if not isinstance(node, ScalarNode):
            self._say(node, path, "a key must be a word, found a mapping or a list")
            return None
        if node.value == "<<" and node.style is None:
            self._say(node, path, "merge keys (`<<`) are not read; put shared settings in defaults.yaml")
            return None
        return str(node.value)

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        tag = str(node.tag or "")
        text = str(node.value)
        kind = tag.removeprefix(_TAG)
        try:
            if kind in ("str", "timestamp"):  # a day is text here: its key says what it must look like
                return text
            if kind == "null":
                return None
            if kind == "bool":
                return text.lower() == "true"
            if kind == "int":
                return _integer(text)
            if kind == "float":
                return self._finite(_number(text), node, path)
        except ValueError:
            self._say(node, path, f"found {found(text)}, which is no {kind}")
            return None
        self._say(node, path, f"found the tag {found(tag)}; values carry no tags")
        return None

    def _finite(self, value: float, node: Node, path: Path) -> float:
        if not math.isfinite(value):
            self._say(node, path, f"found {found(str(node.value))}; numbers here are finite")
        return value

    def _check_tag(self, node: Node, kind: str, path: Path) -> None:
        if node.tag not in (None, _TAG + kind):
            self._say(node, path, f"found the tag {found(str(node.tag))}; values carry no tags")

    def _origin(self, node: Node) -> Origin:
        return Origin(self._shown_as, node.start_mark.line + 1)

    def _say(self, node: Node, path: Path, text: str) -> None:
        self._problems.append(Problem(self._origin(node), dotted(path), text))


def _integer(text: str) -> int:
    plain = text.replace("_", "").lower()
    sign = -1 if plain.startswith("-") else 1
    digits = plain.lstrip("+-")
    if len(digits) > 40:
        raise ValueError("too long")
    if digits.startswith(("0x", "0o", "0b")):
        return sign * int(digits, 0)
    return sign * int(digits, 10)


def _number(text: str) -> float:
    plain = text.replace("_", "").lower()
    named = {".nan": math.nan, ".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf}
    return named[plain] if plain in named else float(plain)
