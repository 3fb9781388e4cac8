"""The sample run is one of this version's formats, names no machine, and is what the README quotes."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from docs_tree import ROOT, blocks, prose

from chaos.model.verdict import SCHEMA, Verdict

SAMPLE = ROOT / "reports" / "sample"
FILES = ("verdict.json", "report.html", "junit.xml", "table.txt")


def verdict() -> Verdict:
    return msgspec.json.decode((SAMPLE / "verdict.json").read_bytes(), type=Verdict)


def test_the_sample_is_a_verdict_of_this_version_and_passed():
    assert (verdict().schema, verdict().outcome) == (SCHEMA, "passed")
    assert {check.outcome for check in verdict().checks} == {"pass", "not_asked"}


@pytest.mark.parametrize("name", FILES)
def test_the_sample_names_no_place_of_a_machine(name):
    text = (SAMPLE / name).read_text(encoding="utf-8")
    assert re.findall(r"(?<![\w./])/(?:work|root|home|opt|mnt|srv|tmp|Users)/[^\s<\"]*", text) == []


@pytest.mark.parametrize("name", ["report.html", "junit.xml", "table.txt"])
def test_every_file_of_the_sample_is_of_the_same_run(name):
    text = (SAMPLE / name).read_text(encoding="utf-8")
    assert verdict().scenario in text
    assert f"{verdict().incidents[0].recovery_time_s:.2f}" in text


def test_the_readme_quotes_the_sample():
    quoted = " ".join(re.findall(r"^> (.*)$", prose(ROOT / "README.md"), flags=re.MULTILINE))
    assert quoted == verdict().sentence
    (shown,) = blocks(ROOT / "README.md", "json")
    check = verdict().check(json.loads(shown)["name"])
    assert json.loads(shown) == json.loads(msgspec.json.encode(check))
    table = (SAMPLE / "table.txt").read_text(encoding="utf-8").strip()
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")
