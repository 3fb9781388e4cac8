"""The reference trainer's settings, from `trainer/config.py`."""

from __future__ import annotations

from dataclasses import fields

from reference.markdown import code, table
from trainer.config import PARTS, PRESETS, flag


def settings() -> str:
    """One table for each part."""
    parts = []
    for name, record in PARTS.items():
        rows = [
            (code(each.name), code(flag(each.name)), _default(each.default), each.metadata["help"])
            for each in fields(record)
        ]
        doc = (record.__doc__ or "").strip()
        parts.append(f"### {name}\n\n{doc}\n\n{table(('name', 'flag', 'default', 'meaning'), rows)}")
    presets = [
        (code(name), ", ".join(f"{key} {value}" for key, value in chosen.items()) or "the defaults above")
        for name, chosen in PRESETS.items()
    ]
    return "\n\n".join([*parts, f"### presets\n\n{table(('`--preset`', 'sets'), presets)}"])


def _default(value: object) -> str:
    if value is None:
        return "–"
    return "no" if value is False else "yes" if value is True else code(value)
