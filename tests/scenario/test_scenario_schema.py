"""The format's house rules, and the JSON Schema that editors read."""

from __future__ import annotations

import keyword
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import chaos
from chaos.faults.catalogue import BY_NAME
from chaos.model.events import KINDS, PHASES, POINTS
from chaos.scenario import check_names, schema
from chaos.scenario.json_schema import as_text, json_schema

ROOT = Path(chaos.__file__).parent.parent
TRUTH_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "~"}
RECORDS = [r for r in vars(schema).values() if isinstance(r, type) and issubclass(r, schema.Record)]


def test_no_key_is_a_yaml_truth_word_or_a_python_keyword():
    records = [*RECORDS, *(fault.Params for fault in BY_NAME.values())]
    keys = {key for record in records for key in record.__struct_fields__}
    keys |= {key for record in RECORDS for key in record.not_yet}
    assert len(keys) > 50
    assert [key for key in keys if key.lower() in TRUTH_WORDS or keyword.iskeyword(key)] == []


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_record_is_strict_and_a_key_of_later_is_none_of_now(record):
    assert record.__struct_config__.forbid_unknown_fields
    assert record.__struct_config__.frozen
    assert not set(record.not_yet) & set(record.__struct_fields__)


def test_phases_and_points_are_those_of_the_events():
    from typing import get_args

    assert get_args(schema.Phase) == PHASES
    assert get_args(schema.Point) == POINTS


def test_a_fault_can_wait_for_what_the_job_does_and_for_nothing_of_ours():
    assert "restart_entered" in schema.TRIGGER_EVENTS
    ours = [kind for kind in KINDS if kind.startswith(("fault_", "undo_", "run_", "stop_", "steady_", "source_"))]
    assert ours
    assert not set(ours) & set(schema.TRIGGER_EVENTS)


def test_core_checks_are_among_the_known_ones_and_none_is_named_twice():
    assert set(check_names.CORE) < set(check_names.KNOWN)
    assert len(check_names.KNOWN) == len(set(check_names.KNOWN)) == 21


def test_names_of_checks_and_parts_are_the_judges():
    from typing import get_args

    from chaos.judge.checks.registry import REGISTRY
    from chaos.judge.parts import PARTS

    assert {spec.name for spec in REGISTRY if spec.core} == set(check_names.CORE)
    assert {spec.name for spec in REGISTRY} == set(check_names.KNOWN)
    assert get_args(schema.Part) == PARTS


def test_every_check_is_foreseeable_but_those_that_a_pass_rests_on():
    from chaos.model.plan import NEVER_FORESEEN
    from chaos.scenario.check_foreseen import FORESEEABLE

    assert set(NEVER_FORESEEN) < set(check_names.KNOWN)
    assert {*FORESEEABLE, *NEVER_FORESEEN} == set(check_names.KNOWN)
    records = json_schema()["$defs"]
    for names in (
        records["ScenarioFile"]["properties"]["expect_failed"],
        records["KnownDefect"]["properties"]["checks"],
    ):
        assert names["items"]["enum"] == list(FORESEEABLE)


def test_the_json_schema_file_is_current():
    assert (ROOT / "scenarios" / "scenario.schema.json").read_text() == as_text()


def test_the_json_schema_knows_each_faults_parameters():
    entry = json_schema()["$defs"]["FaultEntry"]
    assert entry["properties"]["fault"]["enum"] == list(BY_NAME)
    assert [branch["if"]["properties"]["fault"]["const"] for branch in entry["allOf"]] == list(BY_NAME)


def test_every_reference_in_the_json_schema_leads_somewhere():
    whole = json_schema()
    references = set()

    def walk(value):
        if isinstance(value, dict):
            references.update([value["$ref"]] if "$ref" in value else [])
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(whole)
    assert references
    assert {ref.removeprefix("#/$defs/") for ref in references} == set(whole["$defs"])


def test_the_json_schema_offers_no_null():
    assert '"null"' not in as_text()


def test_loading_scenarios_imports_nothing_heavy():
    heavy = ("torch", "chaoslib", "numpy", "psutil", "nvidia_resiliency_ext")
    modules = ", ".join(f"chaos.scenario.{path.stem}" for path in (ROOT / "chaos" / "scenario").glob("[a-z]*.py"))
    assert "chaos.scenario.load" in modules
    code = f"import sys, {modules}; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_rooms_import_only_what_they_may():
    import ast

    allowed = {
        "scenario": ("chaos.model", "chaos.errors", "chaos.faults", "chaos.scenario"),
        "faults": ("chaos.model", "chaos.errors", "chaos.doors", "chaos.faults"),
    }
    seen = 0
    for room, names in allowed.items():
        for file in (ROOT / "chaos" / room).glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                modules = [node.module] if isinstance(node, ast.ImportFrom) else []
                modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                for name in modules:
                    if name and name.startswith("chaos"):
                        seen += 1
                        assert name.startswith(names), f"{file.name} imports {name}"
    assert seen > 40


def test_records_and_their_checks_agree_on_the_format_of_the_smallest_file():
    smallest = {"schema": schema.SCHEMA, "name": "x", "job": {"run": "trainer"}}
    assert msgspec.convert(smallest, schema.ScenarioFile).job.ranks_per_node == 2
