"""How a command ends: one message, one documented status, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import click
import pytest
from cli_build import QUICK, ROOT, run, run_dir

from chaos.cli import main as cli
from chaos.errors import (
    Broken,
    CannotCreate,
    CannotWrite,
    HostDirty,
    JobMisbehaved,
    NotUndone,
    Refused,
    ScenarioInvalid,
    UsageError,
)


@pytest.fixture
def ends(monkeypatch, capfd):
    """The status and the messages of a command that ends with `error`."""

    def ends(error):
        def command(**_):
            if isinstance(error, BaseException):
                raise error
            return error

        monkeypatch.setattr("chaos.cli.faults.command", click.command()(command))
        with pytest.raises(SystemExit) as ended:
            cli.main(["faults"])
        out, err = capfd.readouterr()
        assert out == "" and "Traceback" not in err
        return ended.value.code, err

    return ends


@pytest.mark.parametrize(
    "error, status",
    [
        (UsageError("wrong"), 2), (ScenarioInvalid("wrong"), 2), (HostDirty("wrong"), 2), (Refused("wrong"), 3),
        (JobMisbehaved("wrong"), 3), (NotUndone("wrong"), 4), (Broken("wrong"), 70), (CannotCreate("wrong"), 73),
        (CannotWrite("wrong"), 74), (OSError(28, "wrong"), 74), (KeyboardInterrupt(), 3), (click.Abort(), 3),
        (click.UsageError("wrong"), 2),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)  # fmt: skip
def test_an_error_ends_with_its_documented_status_and_one_message(ends, error, status):
    code, said = ends(error)
    assert code == status and ("wrong" in said or "interrupted" in said)


def test_an_error_names_the_next_step(ends):
    assert "next: nvrx-chaos heal" in ends(HostDirty("left open", remedy="nvrx-chaos heal"))[1]


@pytest.mark.parametrize("status", [0, 1, 3, 4])
def test_a_commands_own_status_is_the_processs(ends, status):
    assert ends(status) == (status, "")


def test_a_crash_of_our_own_keeps_its_traceback_in_a_file(ends, tmp_path, monkeypatch):
    monkeypatch.setattr(cli.tempfile, "tempdir", str(tmp_path))
    code, said = ends(ZeroDivisionError("division by zero"))
    (kept,) = tmp_path.iterdir()
    assert code == 70 and "defect of ours" in said and str(kept) in said
    assert "Traceback" in kept.read_text() and "ZeroDivisionError" in kept.read_text()


def test_an_unknown_command_names_the_nearest(call):
    ran = call("validte", QUICK)
    assert ran.returncode == 2 and "did you mean 'validate'?" in ran.stderr and ran.stdout == ""


def test_a_command_like_no_other_lists_them_all(call):
    ran = call("xyzzy")
    assert ran.returncode == 2 and "did you mean" not in ran.stderr and "run, validate, faults" in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"], ["judge"], ["report"], ["run", "--seed", "-1", QUICK], ["run", "--repeat", "0", QUICK],
        ["validate", "--no-such-flag"], ["faults", "process.kil"], ["validate", "/nowhere"], ["judge", "/nowhere"],
        ["report", "/nowhere"], ["report", "--format", "pdf", "x"], ["validate"], ["run", "/nowhere"],
        ["validate", "--set", "nonsense", QUICK],
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage_touches_nothing_and_ends_with_2(arguments, tmp_path, call):
    ran = call(*arguments)
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == "" and ran.stderr and "Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_fault_that_is_not_there_names_the_nearest(call):
    assert "did you mean 'process.kill'?" in call("faults", "process.kil").stderr


def test_html_of_two_runs_at_once_is_wrong_usage(call):
    ran = call("report", "a", "b", "--format", "html")
    assert ran.returncode == 2 and "one run at a time" in ran.stderr


def test_out_that_is_a_file_is_wrong_usage(tmp_path, call):
    (tmp_path / "out").touch()
    ran = call("run", QUICK, "--out", tmp_path / "out")
    assert ran.returncode == 2 and "is a file" in ran.stderr and not (tmp_path / "home").exists()


def test_out_that_is_no_text_is_wrong_usage(tmp_path, call):
    ran = call("run", QUICK, "--out", os.fsdecode(bytes(tmp_path) + b"/\xff"))
    assert ran.returncode == 2 and "no UTF-8" in ran.stderr and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--help"], ["faults", "--json"], ["validate", QUICK], ["doctor"]], ids=" ".join)
def test_output_that_nobody_reads_or_that_cannot_be_written_is_74_and_no_failed_run(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe, open("/dev/full", "w") as full:
        broken = run(*arguments, stdout=pipe, stderr=-1)
        refused = run(*arguments, stdout=full, stderr=-1)
    assert broken.returncode == 74 and broken.stderr == ""
    assert refused.returncode == 74 and "No space left" in refused.stderr and "Traceback" not in refused.stderr


def test_messages_that_cannot_be_written_leave_the_status_as_it_is():
    with open("/dev/full", "w") as full:
        assert run("xyzzy", stdout=-1, stderr=full).returncode == 2
        assert run("judge", "/nowhere", stdout=-1, stderr=full).returncode == 2


def test_ctrl_c_is_no_traceback(monkeypatch, capfd):
    def command():
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("chaos.cli.faults.command", click.command()(command))
    with pytest.raises(SystemExit) as ended:
        cli.main(["faults"])
    assert ended.value.code == 3 and "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_the_caller_closed_changes_no_status(tmp_path, closed):
    path = run_dir(tmp_path)
    command = f'{sys.executable} -c "from chaos.cli.main import main; main()" report {path} {closed}'
    ended = subprocess.run(["bash", "-c", command], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("name", ["judge", "report"])
def test_a_loop_of_links_is_no_run_directory(tmp_path, name, call):
    (tmp_path / "loop").symlink_to("loop")
    ended = call(name, tmp_path / "loop")
    assert ended.returncode == 74 and "symbolic links" in ended.stderr


def test_a_folder_that_is_no_run_is_told_as_such_and_a_run_without_a_verdict_how_to_get_one(tmp_path):
    ended = run("report", tmp_path)
    assert (ended.returncode, "is not a run directory" in ended.stderr) == (2, True)
    path = run_dir(tmp_path)
    (path / "verdict.json").unlink()
    ended = run("report", path)
    assert (ended.returncode, f"nvrx-chaos judge --write {path}" in ended.stderr) == (2, True)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("kind", ["table", "html", "junit", "json"])
def test_a_terminal_of_few_letters_gets_whole_documents(tmp_path, monkeypatch, encoding, kind):
    path = run_dir(tmp_path, sentence="recovered after ≤ 3 s ✓ é")
    (path / "history" / "controller-1-1.jsonl").touch()
    whole = run("report", path, "--format", kind)
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    ended = run("report", path, "--format", kind, stdout=-1, stderr=-1, encoding="latin-1")
    assert (whole.returncode, ended.returncode, ended.stderr) == (0, 0, "")
    if kind != "table":
        assert ended.stdout.encode("latin-1").decode() == whole.stdout


def test_a_file_whose_name_is_no_text_is_named_in_numbers(tmp_path):
    odd = os.fsdecode(bytes(tmp_path) + b"/\xff.yaml")
    with open(odd, "w") as file:
        file.write((ROOT / "scenarios" / "quick" / "control.yaml").read_text())
    ended = run("validate", odd)
    assert ended.returncode in (0, 2) and "Traceback" not in ended.stderr and "defect" not in ended.stderr
