"""--json: exactly one document on standard output, whatever is said beside it."""

from __future__ import annotations

import json

import pytest
from cli_build import QUICK, run_dir, verdict

import chaos.run
from chaos.cli.main import COMMANDS, main
from chaos.guard import dirty


def document(text):
    """The one document; fails on anything before or behind it."""
    found, end = json.JSONDecoder().raw_decode(text)
    assert text[end:].strip() == ""
    return found


@pytest.mark.parametrize(
    "arguments, schema",
    [
        (["validate", QUICK, "--json"], "nvrx-chaos/validate/1"),
        (["faults", "--json"], "nvrx-chaos/faults/1"),
        (["faults", "process.hang", "--json"], "nvrx-chaos/faults/1"),
        (["doctor", "--json"], "nvrx-chaos/doctor/1"),
        (["heal", "--json"], "nvrx-chaos/heal/1"),
        (["heal", "--list", "--json"], "nvrx-chaos/heal/1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_commands_that_give_data_give_one_document(arguments, schema, call):
    ran = call(*arguments)
    assert ran.returncode == 0, ran.stderr
    assert document(ran.stdout)["schema"] == schema


def test_the_schema_of_scenarios_is_one_document_too(call):
    assert document(call("validate", "--schema").stdout)["$schema"].startswith("https://json-schema.org/")


def test_validate_gives_the_resolved_form_of_every_run(call):
    rows = document(call("validate", QUICK, "--json").stdout)["runs"]
    assert len(rows) >= 4 and {"name", "source", "resolved"} <= set(rows[0])
    assert rows[0]["resolved"]["job"]["steps"] > 0


def test_faults_gives_what_a_pass_certifies_and_what_not(call):
    (row,) = document(call("faults", "process.hang", "--json").stdout)["faults"]
    assert row["name"] == "process.hang" and row["certifies"] and row["does_not_certify"] and row["ends"] == "undone"


@pytest.mark.parametrize("flags", [["--json"], ["--format", "json"]])
def test_report_gives_the_recorded_verdicts(tmp_path, flags, call):
    paths = [run_dir(tmp_path, "r1"), run_dir(tmp_path, "r2", "failed")]
    ran = call("report", *paths, *flags)
    assert ran.returncode == 0
    assert [each["outcome"] for each in document(ran.stdout)["verdicts"]] == ["passed", "failed"]


def test_report_into_a_file_leaves_standard_output_empty(tmp_path, call):
    ran = call("report", run_dir(tmp_path), "--json", "--output", tmp_path / "out.json")
    assert ran.returncode == 0 and ran.stdout == "" and document((tmp_path / "out.json").read_text())["verdicts"]


def test_judging_a_run_without_evidence_is_one_document_never_passed_and_says_that_it_differs(tmp_path, call):
    ran = call("judge", run_dir(tmp_path), "--json")
    assert ran.returncode == 3, ran.stderr
    assert [each["outcome"] for each in document(ran.stdout)["verdicts"]] == ["unknown"]
    assert "NOT as recorded (recorded: passed)" in ran.stderr
    assert json.loads((tmp_path / "r1" / "verdict.json").read_text())["outcome"] == "passed"  # nothing was written


class Done:
    """One run as a campaign gives it back."""

    def __init__(self, folder, one, status):
        self.run_dir, self.verdict, self.status = folder / one.run_id, one, status


@pytest.fixture
def campaign(monkeypatch, tmp_path):
    """`run` without jobs: the campaign answers with the runs given, and talks on standard error as a real one."""

    def campaign(*outcomes, interrupted=False):
        class Campaign:
            def __init__(self, out, **_):
                self.interrupted = interrupted

            def run(self, scenarios, *, repeat):
                return [
                    Done(tmp_path, verdict(outcome, f"r{number}"), status)
                    for number, (outcome, status) in enumerate(outcomes)
                ]

        monkeypatch.setattr(chaos.run, "Campaign", Campaign)
        monkeypatch.setattr(chaos.run, "write_index", lambda out, done: out / "index.html")
        monkeypatch.setattr(dirty, "check", lambda: None)

    return campaign


@pytest.mark.parametrize(
    "outcomes, interrupted, status",
    [
        ([("passed", 0)], False, 0), ([("passed", 0), ("failed", 1)], False, 1),
        ([("passed", 0), ("unknown", 3)], False, 3),
        ([("passed", 0)], True, 3), ([("failed", 1)], True, 1), ([("passed", 0), ("unknown", 4)], False, 4),
        ([("passed", -9)], False, 70),
    ],
)  # fmt: skip
def test_run_gives_every_verdict_and_ends_with_the_worst(campaign, capsys, tmp_path, outcomes, interrupted, status):
    campaign(*outcomes, interrupted=interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["run", QUICK, "--json", "--quiet", "--out", str(tmp_path / "out")])
    out, err = capsys.readouterr()
    assert ended.value.code == status, err
    found = document(out)
    assert found["schema"] == "nvrx-chaos/runs/1"
    assert [each["verdict"]["outcome"] for each in found["runs"]] == [outcome for outcome, _ in outcomes]
    assert ("nvrx-chaos heal" in err) is (status == 4)


def test_every_command_has_json(call):
    for name in COMMANDS:
        assert "--json" in call(name, "--help").stdout
