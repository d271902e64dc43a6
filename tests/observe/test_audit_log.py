"""The audit log: whole lines, rotation, and disks that are full, slow or gone."""

from __future__ import annotations

import json
import os
import stat
import threading

import pytest

from tenfold.core.errors import TenfoldError
from tenfold.observe import audit_log
from tenfold.observe.audit_log import AuditLog
from tests.server.running_server import wait_until


def test_lines_are_appended(tmp_path):
    path = tmp_path / "audit"
    for number in range(2):
        log = AuditLog(path)
        log.write({"n": number, "text": "a\nb"})
        log.close()
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == [0, 1]
    assert stat.S_IMODE(path.stat().st_mode) & 0o027 == 0


def test_reopening_follows_the_name(tmp_path):
    path = tmp_path / "audit"
    log = AuditLog(path)
    log.write({"n": 0})
    wait_until(lambda: path.stat().st_size)
    path.rename(tmp_path / "old")
    log.write({"n": 1})  # as long as nobody says otherwise, the old file goes on
    wait_until(lambda: (tmp_path / "old").read_text().count("\n") == 2)
    log.reopen()
    log.write({"n": 2})
    log.close()
    assert json.loads(path.read_text()) == {"n": 2}


def test_a_name_that_cannot_be_opened_again_keeps_the_old_file(tmp_path, caplog):
    folder = tmp_path / "logs"
    folder.mkdir()
    log = AuditLog(folder / "audit")
    folder.rename(tmp_path / "moved")
    log.reopen()
    log.write({"n": 0})
    log.close()
    assert json.loads((tmp_path / "moved" / "audit").read_text()) == {"n": 0}
    assert "The old file is written on." in caplog.text


def test_a_path_that_cannot_be_opened_is_a_sentence(tmp_path):
    with pytest.raises(TenfoldError, match="cannot be opened: No such file"):
        AuditLog(tmp_path / "no" / "audit")


def test_a_full_disk_is_counted_and_complained_of_once(caplog):
    log = AuditLog("/dev/full")
    for _ in range(5):
        log.write({"n": 0})
    log.close()
    assert log.lost == 5
    assert caplog.text.count("loses lines") == 1


def test_a_torn_line_spoils_no_other(tmp_path, monkeypatch):
    path = tmp_path / "audit"
    room = [4]

    def write(file, data, real=os.write):
        taken = min(len(data), room[0])
        room[0] = 1000
        return real(file, data[:taken])

    monkeypatch.setattr(audit_log.os, "write", write)
    log = AuditLog(path)
    log.write({"n": 0})
    log.write({"n": 1})
    log.close()
    assert path.read_text() == '{"n"\n{"n":1}\n'
    assert log.lost == 1


def test_a_disk_that_stands_still_holds_nobody_up(tmp_path, monkeypatch):
    gate = threading.Event()

    def write(file, data, real=os.write):
        gate.wait(10)
        return real(file, data)

    monkeypatch.setattr(audit_log.os, "write", write)
    monkeypatch.setattr(audit_log, "_MAX_WAITING", 3)
    log = AuditLog(tmp_path / "audit")
    for number in range(10):
        log.write({"n": number})
    assert log.lost >= 6
    gate.set()
    log.close()
    assert (tmp_path / "audit").read_text().count("\n") == 10 - log.lost
