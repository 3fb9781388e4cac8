from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from system_jobs import BOOT

from chaos.clock import FakeClock
from chaos.errors import CannotWrite
from chaos.guard.ledger import Entry, LedgerContent, LedgerWriter, in_undo_order, read_ledger
from chaos.model.undo import Undo, Undone


@pytest.fixture(autouse=True, scope="module")
def no_power_cut():
    """Thousands of lines are written here; none has to outlive the machine."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: None)
        yield


DONE = Undone(how="done", measured=True)


def entry(number: int, verb: str = "remove_path", **changes) -> Entry:
    return Entry(
        id=f"e{number}",
        boot_id=BOOT,
        opened_ticks=number,
        opened_ns=number,
        undo=Undo(verb=verb, args={"path": f"/p/{number}"}),
        **changes,
    )


def writer(path) -> LedgerWriter:
    return LedgerWriter(path, boot_id=BOOT, clock=FakeClock())


@pytest.fixture
def ledger(tmp_path):
    """Three entries, the first two closed."""
    path = tmp_path / "ledger.jsonl"
    book = writer(path)
    book.began("run")
    for number in (1, 2, 3):
        book.opened(entry(number, fault="kill"))
    book.step("e1", "undo_began", why="asked")
    book.closed("e1", DONE)
    book.closed("e2", Undone(how="gone", measured=True, detail="{}"))
    book.close()
    return path


def ids(entries) -> list[str]:
    return [found.id for found in entries]


def test_what_was_written_is_read_back(ledger):
    content = read_ledger(ledger)
    assert [(found.id, found.undone.how if found.undone else None) for found in content.entries] == [
        ("e1", "done"), ("e2", "gone"), ("e3", None),
    ]  # fmt: skip
    assert content.entries[2] == entry(3, fault="kill")
    assert content.unreadable == ()


def test_a_ledger_cut_at_any_byte_forgets_no_harm_that_can_have_begun(ledger):
    """An entry whose line was whole is known; one that was closed before the cut, and only then, is closed."""
    text = ledger.read_bytes()
    lines = text.split(b"\n")
    for cut in range(len(text) + 1):
        ledger.write_bytes(text[:cut])
        whole = text[:cut].count(b"\n")
        if text[cut : cut + 1] == b"\n":
            whole += 1  # all but its end of line: it says all it had to say
        content = read_ledger(ledger)
        assert content.unreadable == (), f"cut at {cut}"
        opened = [f"e{number}" for number in (1, 2, 3) if number + 1 <= whole]
        closed = [name for name, line in (("e1", 6), ("e2", 7)) if line <= whole]
        assert ids(content.entries) == opened, f"cut at {cut}"
        assert ids(found for found in content.entries if not found.is_open) == closed, f"cut at {cut}"
    assert len(lines) == 8


def test_whoever_goes_on_after_a_cut_spoils_no_line_of_his_own(ledger):
    text = ledger.read_bytes()
    for cut in range(len(text)):
        ledger.write_bytes(text[:cut])
        before = ids(read_ledger(ledger).entries)
        book = writer(ledger)
        book.opened(entry(9))
        book.closed("e9", DONE)
        book.close()
        content = read_ledger(ledger)
        assert ids(content.entries) == [*before, "e9"], f"cut at {cut}"
        assert not content.entries[-1].is_open
        assert content.unreadable == (), f"cut at {cut}"


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_a_line_damaged_in_the_middle_is_told_and_never_taken_for_a_torn_one(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    book = writer(path)
    for number in range(1, 5):
        book.opened(entry(number))
    book.close()
    lines = path.read_bytes().split(b"\n")
    victim = data.draw(st.integers(0, 2))
    keep = data.draw(st.integers(1, len(lines[victim]) - 1))
    lines[victim] = lines[victim][:keep]
    path.write_bytes(b"\n".join(lines))
    assert read_ledger(path).unreadable == (victim + 1,)


@pytest.mark.parametrize("line", [b'{"op":"novelty"}', b"[]", b'{"op":"closed","id":"e77","undone":{}}', b"\xff\xfe"])
def test_a_whole_line_that_says_nothing_we_know_is_told(ledger, line):
    ledger.write_bytes(line + b"\n" + ledger.read_bytes())
    assert read_ledger(ledger).unreadable == (1,)


def test_no_ledger_means_no_entries_and_an_unreadable_one_does_not(tmp_path):
    assert read_ledger(tmp_path / "missing") == LedgerContent()
    for not_a_file in (tmp_path, "/dev/full"):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(not_a_file)
        with pytest.raises(CannotWrite, match="link"):
            read_ledger(tmp_path / "link")


def test_a_line_that_cannot_be_put_on_disk_is_an_error_that_names_file_and_remedy(tmp_path):
    (tmp_path / "ledger.jsonl").symlink_to("/dev/full")
    book = writer(tmp_path / "ledger.jsonl")
    with pytest.raises(CannotWrite, match=r"ledger\.jsonl: No space left") as refused:
        book.opened(entry(1))
    assert "NVRX_CHAOS_HOME" in refused.value.remedy
    book.close()


def test_a_line_that_was_written_and_not_synced_is_an_error(tmp_path, monkeypatch):
    book = writer(tmp_path / "ledger.jsonl")

    def broken(handle):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        with pytest.raises(CannotWrite, match="Input/output error"):
            book.opened(entry(1))
    book.close()


def test_held_faults_are_undone_first_then_orders_then_the_job_then_paths():
    verbs = ["stop_job", "remove_path", "disarm", "resume_process", "resume_process"]
    entries = [entry(number, verb) for number, verb in enumerate(verbs)]
    assert ids(in_undo_order(entries)) == ["e4", "e3", "e2", "e0", "e1"]
