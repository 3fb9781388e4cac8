"""One event, one line, one write; the header of each line says who it is about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from chaos.history import writer as module
from chaos.history.writer import Writer, file_name, life_of, this_life
from chaos.model.events import HEADER


@pytest.fixture
def writer(tmp_path):
    writer = Writer(str(tmp_path), "rank")
    yield writer
    writer.close()


def lines(writer):
    with open(writer.path, encoding="ascii") as file:
        return [json.loads(line) for line in file]


def test_a_life_names_boot_namespace_pid_and_start():
    boot, namespace, pid, ticks = this_life().split("-")
    assert len(boot) == 8 and int(pid) == os.getpid() and int(namespace) > 0 and int(ticks) > 0
    assert this_life() == life_of(os.getpid())


def test_a_pid_that_is_nobody_has_no_life():
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert life_of(child.pid) is None


def test_a_name_with_brackets_and_spaces_does_not_move_the_fields():
    script = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, b') 1 2 3 (', 0, 0, 0); print(flush=True); sys.stdin.read()"
    )
    plain = "import sys; print(flush=True); sys.stdin.read()"
    starts = []
    for each in (plain, script):
        with subprocess.Popen([sys.executable, "-c", each], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            with open(f"/proc/{child.pid}/stat", "rb") as stat:
                raw = stat.read()
            starts.append((life_of(child.pid), raw))
            child.communicate()
    for life, raw in starts:
        assert life.endswith(f"-{int(raw[raw.rindex(b')') + 2 :].split()[19])}")


def test_the_file_is_named_after_role_and_life(writer):
    pid, ticks = writer.life.rsplit("-", 2)[1:]
    assert os.path.basename(writer.path) == f"rank-{pid}-{ticks}.jsonl" == file_name("rank", writer.life)


def test_each_line_has_the_header_in_order_and_then_its_own_fields(writer):
    writer.identify(reentry=2, group="g", rank=3, initial_rank=5)
    writer.write("checkpoint_began", {"step": 40, "path": "checkpoints/40"})
    writer.write("abort_began")
    writer.write("phase_entered", {"phase": "forward", "step": 41})
    one, two, three = lines(writer)
    assert tuple(one) == (*HEADER, "step", "path") and tuple(two) == HEADER
    assert [one[name] for name in HEADER[2:7]] == [writer.life, 2, "g", 3, 5]
    assert (one["step"], three["phase"], three["step"]) == (40, "forward", 41)
    assert one["t_ns"] <= two["t_ns"] <= three["t_ns"]


def test_before_anything_is_known_the_header_says_so(writer):
    writer.write("abort_began")
    assert [lines(writer)[0][name] for name in ("reentry", "group", "rank", "initial_rank")] == [None] * 4


def test_an_event_about_another_carries_the_others_life_and_not_ours(writer):
    writer.identify(reentry=0, group="g", rank=3, initial_rank=3)
    writer.write_about("process_exited", {"pid": 7}, life="abc-1-7-9", rank=1, t_ns=5, wall_s=1.25)
    writer.write_about("stop_requested", {}, life=None)
    one, two = lines(writer)
    assert (one["life"], one["rank"], one["initial_rank"], one["group"]) == ("abc-1-7-9", 1, 1, None)
    assert (one["t_ns"], one["wall_s"], one["pid"]) == (5, 1.25, 7)
    assert two["life"] is None and two["rank"] is None


def test_a_kind_outside_the_vocabulary_is_refused(writer):
    with pytest.raises(ValueError, match="unknown kind"):
        writer.write_about("fault_wished_for", {}, life=None)
    assert lines(writer) == []


@pytest.mark.parametrize("text", ["two\nlines", 'a "quote"', "\u2028 and \u00e9 and \U0001f600", "\x00\x1b[31m", "\\"])
def test_any_text_stays_on_one_line_and_comes_back(writer, text):
    writer.write("interruption_reported", {"text": text})
    with open(writer.path, "rb") as file:
        assert file.read().count(b"\n") == 1
    assert lines(writer)[0]["text"] == text


def test_what_json_does_not_know_is_written_as_its_text(writer):
    writer.write("settings_seen", {"settings": {"path": os.path, "set": {1}}})
    assert lines(writer)[0]["settings"]["set"] == "{1}"


def test_each_event_is_one_write(writer, monkeypatch):
    calls = []
    monkeypatch.setattr(module.os, "write", lambda fd, raw: calls.append(raw) or len(raw))
    writer.write("digest_taken", {"shards": "x" * 100_000})
    assert len(calls) == 1 and calls[0].endswith(b"\n")


def test_several_lines_are_one_write_too(writer, monkeypatch):
    calls = []
    monkeypatch.setattr(module.os, "write", lambda fd, raw: calls.append(raw) or len(raw))
    writer.put('{"a":1}\n{"b":2}\n')
    assert calls == [b'{"a":1}\n{"b":2}\n']


@pytest.mark.parametrize("fields, tail", [(None, "}"), ({}, "}"), ({"step": 3}, ',"step":3}')])
def test_the_tail_of_a_line_closes_it(fields, tail):
    assert Writer.tail(fields) == tail


def test_a_close_that_the_system_refuses_is_not_tried_again(writer):
    """The number may be another file's by then."""
    os.close(writer._fd)
    with pytest.raises(OSError):
        writer.close()
    writer.close()


def test_a_line_that_was_cut_is_an_error(writer, monkeypatch):
    monkeypatch.setattr(module.os, "write", lambda fd, raw: len(raw) - 1)
    with pytest.raises(OSError, match="a line was cut"):
        writer.write("abort_began")


def test_a_full_disk_is_an_error(writer):
    with open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), writer._fd)
    with pytest.raises(OSError, match="No space left"):
        writer.write("abort_began")


def test_lines_of_several_threads_are_never_mixed(writer):
    def write(number):
        for step in range(200):
            writer.write("step_returned", {"step": step, "of": number, "text": "x" * 500})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = lines(writer)
    for number in range(4):
        assert [line["step"] for line in seen if line["of"] == number] == list(range(200))


def test_what_was_written_before_a_sigkill_is_there(tmp_path):
    script = (
        "import os, sys; from chaos.history.writer import Writer\n"
        "w = Writer(sys.argv[1], 'rank'); [w.write('step_returned', {'step': n}) for n in range(50)]\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, timeout=30)
    (path,) = tmp_path.iterdir()
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == list(range(50))


def test_closing_twice_is_no_error_and_writing_after_it_is_one(writer):
    writer.close()
    writer.close()
    with pytest.raises(OSError):
        writer.write("abort_began")


def test_a_second_writer_of_the_same_life_adds_and_does_not_begin_anew(writer, tmp_path):
    writer.write("abort_began")
    again = Writer(str(tmp_path), "rank")
    again.write("abort_done", {"sockets": 1})
    again.close()
    assert [line["kind"] for line in lines(writer)] == ["abort_began", "abort_done"]


def test_an_inherited_descriptor_is_closed_by_exec(writer):
    assert os.get_inheritable(writer._fd) is False


def test_a_header_field_among_an_events_own_fields_is_refused(tmp_path):
    writer = Writer(str(tmp_path), "controller")
    with pytest.raises(ValueError, match="rank belong to the header"):
        writer.write_about("fault_armed", {"fault": "kill", "rank": 1}, life=None)
    writer.close()
