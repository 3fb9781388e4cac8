"""Claims about the final table."""

from __future__ import annotations

import io

import pytest
from report_builders import REPEAT, failed, known, not_run, unknown, verdict

from chaos.errors import CannotWrite
from chaos.report.terminal import final_text, print_final

ALL = [verdict(scenario="kill-worker[rank=0]"), failed(), unknown(), not_run()]


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_the_window_and_only_commands_may_stick_out(width):
    for line in final_text(ALL, width=width).splitlines():
        assert len(line) <= width or "repeat:" in line


@pytest.mark.parametrize("width", [80, 120])
def test_every_run_shows_its_outcome_as_a_word(width):
    text = final_text(ALL, width=width)
    for word in ("passed", "failed", "unknown", "not run"):
        assert word in text


def test_the_last_line_is_the_summary():
    assert final_text(ALL).splitlines()[-1] == "1 passed, 1 failed, 1 unknown, 1 not run"


def test_known_failures_are_named_apart_below_all_others():
    lines = final_text([known(scenario="theirs"), failed(scenario="ours"), unknown()]).splitlines()
    assert any(line.startswith("theirs") and "failed (known)" in line for line in lines)
    apart = lines.index("Known failures, counted apart:")
    assert (
        lines.index("failed  ours")
        < lines.index("unknown  kill-worker")
        < apart
        < lines.index("failed (known)  theirs")
    )
    assert "https://example.org/issues/7" in " ".join(lines[apart:])
    assert lines[-1] == "0 passed, 1 failed, 1 known, 1 unknown, 0 not run"


def test_without_known_failures_nothing_is_said_of_them():
    assert "nown failure" not in final_text(ALL)


def test_a_repeat_command_is_one_line_however_narrow_the_window():
    command = REPEAT + " --set " + "x" * 100
    assert f"  repeat: {command}" in final_text([failed(repeat=command)], width=80).splitlines()


def test_a_passed_run_needs_no_explanation():
    assert "repeat:" not in final_text([verdict()])


def test_a_run_that_was_not_run_tells_the_next_step():
    assert "  next: Linux 6.15 or later" in final_text([not_run()]).splitlines()


def test_a_wide_window_names_the_deciding_check_in_the_row():
    row = next(line for line in final_text([failed()], width=120).splitlines() if line.startswith("kill-worker"))
    assert row.endswith("recovered in time")


def test_colour_repeats_what_words_say():
    assert "\x1b[" in final_text([failed()], colour=True)
    assert "\x1b[" not in final_text([failed()], colour=False)


def test_escape_sequences_and_markup_of_others_stay_text():
    text = final_text(
        [failed(scenario="a\x1b[2J[red]b", sentence="\x9b1m", repeat="x\x1b]0;title\x07", remedy="\x1bc")]
    )
    assert not any(sign in text for sign in "\x1b\x9b\x07")
    assert "a\\x1b[2J[red]b" in text


def test_a_name_of_ten_kilobytes_does_not_flood_the_window():
    assert len(final_text([failed(scenario="n" * 10_000)], width=80)) < 3000


def test_what_goes_into_a_pipe_is_plain():
    stream = io.StringIO()
    print_final(ALL, stream)
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().endswith("1 not run\n")


def test_a_stream_without_unicode_gets_replacements_and_no_exception():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    print_final([unknown()], stream)
    assert b"? 0.21 s" in raw.getvalue()


def test_a_closed_stream_is_a_clear_error():
    stream = io.StringIO()
    stream.close()
    with pytest.raises(CannotWrite, match="could not be printed"):
        print_final(ALL, stream)
