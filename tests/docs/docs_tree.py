"""The pages that people read, and small readers of Markdown, for the tests of this folder."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "reports" / "sample").glob("*.md")),
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def blocks(page: Path, *languages: str) -> list[str]:
    """The contents of its code blocks of these languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [content for language, content in found if language in languages]


def links(page: Path) -> list[str]:
    """Targets of links and pictures, those of other sites left out."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """What can stand behind a `#`, as GitHub makes it of the headings."""
    names: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+)$", prose(page), flags=re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
        number = 0
        while (name := slug if not number else f"{slug}-{number}") in names:
            number += 1
        names.add(name)
    return names


def commands(page: Path) -> list[str]:
    """Command lines of `nvrx-chaos` shown in code blocks and in running text, comments cut off."""
    lines = [line.strip() for content in blocks(page, "console", "sh", "") for line in content.splitlines()]
    lines += re.findall(r"`((?:\.venv/bin/)?nvrx-chaos [^`]+)`", prose(page))
    found = (re.sub(r"^\$ |\s+#.*$", "", line).removeprefix(".venv/bin/") for line in lines)
    return [line for line in found if line.startswith("nvrx-chaos ")]
