"""Settings and their command line: what is accepted, what is refused, and what the launcher is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trainer import config
from trainer.__main__ import launcher_command


def parsed(*arguments: str) -> config.Settings:
    return config.parse(["--out", "/nowhere", *arguments])


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        config.parse(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_every_setting_can_be_given_as_a_flag():
    settings = parsed("--checkpoint-every", "7", "--heartbeat-timeout-s", "9.5", "--width", "32", "--shrink")
    assert settings.run.checkpoint_every == 7
    assert settings.intervals.heartbeat_timeout_s == 9.5
    assert settings.model.width == 32
    assert settings.run.shrink


def test_a_flag_wins_over_the_preset():
    assert parsed("--preset", "small").model.width > parsed().model.width
    assert parsed("--preset", "small", "--width", "48").model.width == 48


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--steps", "0"], "--steps"),
        (["--steps", "many"], "--steps"),
        (["--recovery", "in_procss"], "in_procss"),
        (["--width", "10", "--heads", "4"], "--width"),
        (["--dropout", "1"], "--dropout"),
        (["--soft-timeout-s", "95"], "--hard-timeout-s"),
        (["--heartbeat-timeout-s", "0"], "--heartbeat-timeout-s"),
        (["--heartbeat-timeout-s", "0.1"], "--heartbeat-interval-s"),
        (["--stepz", "3"], "--stepz"),
    ],
)
def test_a_bad_setting_is_named(capsys, arguments, named):
    assert named in refused(capsys, "--out", "/nowhere", *arguments)


def test_out_must_be_given(capsys):
    assert "--out" in refused(capsys)


def test_settings_seen_hold_every_interval_but_no_place_to_write():
    flat = parsed("--metrics", "/nowhere/m").flat()
    assert flat["heartbeat_timeout_s"] == 3.0
    assert flat["checkpoint_every"] == 20
    assert "out" not in flat and "metrics" not in flat
    assert all(isinstance(value, str | int | float | bool | None) for value in flat.values())


def test_without_in_job_the_launcher_never_restarts():
    assert "--max-restarts=0" in launcher_command(parsed("--recovery", "in_process", "--max-restarts", "5"), [])
    assert "--max-restarts=5" in launcher_command(parsed("--recovery", "in_job", "--max-restarts", "5"), [])


def test_an_empty_recovery_switches_both_layers_off():
    run = parsed("--recovery", "").run
    assert not run.in_process and not run.in_job


def test_parsing_needs_no_torch():
    code = "import sys; import trainer.__main__; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unusable_text_ends_with_one_line_and_status_2(tmp_path):
    command = [sys.executable, "-m", "trainer", "--out", str(tmp_path / "out"), "--data", str(tmp_path / "none")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1 and str(tmp_path / "none") in ended.stderr
