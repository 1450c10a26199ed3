"""What the host tells, from the real one where that is safe, else from recorded files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from watchdog import procfs
from watchdog.collect import kernel, pyspy


def test_the_real_host_tells_its_memory() -> None:
    found = kernel.host()
    assert found.status == "ok"
    assert "MemAvailable:" in str(found.files["host/meminfo.txt"])


def test_what_the_host_does_not_tell_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("0.1 0.2 0.3 1/2 3\n")
    found = kernel.host(tmp_path)
    assert found.files == {"host/loadavg.txt": "0.1 0.2 0.3 1/2 3\n"}
    assert "meminfo: No such file or directory" in found.notes


def test_shared_memory_by_owner(tmp_path: Path) -> None:
    (tmp_path / "torch_1").write_bytes(b"x" * 8192)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "sem.x").write_bytes(b"x" * 4096)
    (tmp_path / "link").symlink_to("/nowhere")
    os.mkfifo(tmp_path / "fifo")
    found = kernel.shared_memory(tmp_path).files["host/shared-memory.json"]
    assert isinstance(found, dict)
    assert found["owners_by_uid"] == {str(os.getuid()): {"files": 4, "bytes": 12288}}
    assert found["largest"][0] == {"path": f"{tmp_path}/torch_1", "bytes": 8192}
    with pytest.raises(FileNotFoundError):
        kernel.shared_memory(tmp_path / "none")


KMSG = """\
6,1,100,-;Linux version 6.18
4,339,5140900,-;Out of memory: Killed process 4711 (ami) total-vm:1kB
3,340,6000000,-;INFO: task ami:4711 blocked for more than 120 seconds.
6,341,7000000,-;usb 1-1: new device
4,342,8500000,-;NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.
no record at all: I/O error
"""


def test_telling_kernel_lines_with_their_time(tmp_path: Path) -> None:
    (tmp_path / "kmsg").write_text(KMSG)
    assert kernel.log(tmp_path / "kmsg").files == {
        "host/kernel-log.txt": "[5.141] Out of memory: Killed process 4711 (ami) total-vm:1kB\n"
        "[6.000] INFO: task ami:4711 blocked for more than 120 seconds.\n"
        "[8.500] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
        "no record at all: I/O error\n"
    }


def test_a_kernel_log_that_may_not_be_read_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kernel.log(tmp_path / "none").status == "skipped"

    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "open", refuse)
    found = kernel.log(Path("/dev/kmsg"))
    assert found.status == "skipped" and "CAP_SYSLOG" in found.notes[0]


def test_the_real_kernel_log_never_blocks() -> None:
    assert kernel.log().status in ("ok", "skipped")


def test_logind_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "systemd/logind.conf.d").mkdir(parents=True)
    (tmp_path / "systemd/logind.conf").write_text("[Login]\n#RemoveIPC=no\n")
    (tmp_path / "systemd/logind.conf.d/10-keep.conf").write_text("[Login]\nRemoveIPC = no\n")
    (tmp_path / "loginctl").write_text('#!/bin/sh\necho "Linger=no"; echo "asked $*"\n')
    (tmp_path / "loginctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = kernel.logind([1007, 1007], within=5.0, etc=tmp_path).files["host/logind.txt"]
    assert str(found).splitlines()[:2] == [
        f"RemoveIPC in {tmp_path}/systemd/logind.conf.d/10-keep.conf: no",
        "user 1007: Linger=no, asked show-user 1007 --property=Linger --property=State --property=Sessions",
    ]


def test_without_logind_the_default_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = kernel.logind([1007], within=5.0, etc=tmp_path)
    assert "RemoveIPC is set nowhere: yes" in str(found.files["host/logind.txt"])
    assert found.notes == ("loginctl is not installed",)


def test_users_of_processes() -> None:
    (own, *_), (parent, *_) = procfs.walk(os.getpid()), procfs.walk(os.getppid())
    assert kernel.uids_of([own, parent, own._replace(pid=2**22 - 3)])[:1] == (os.getuid(),)
    assert kernel.uids_of([own._replace(starttime=own.starttime - 1)]) == ()


def test_versions(fake_pyspy: Callable[[str], Path]) -> None:
    fake_pyspy("echo py-spy 9.8.7")
    found = kernel.versions({"supervisord": "4.3.0"}, within=5.0).files["host/versions.json"]
    assert isinstance(found, dict)
    assert (
        found["py-spy"] == "py-spy 9.8.7" and found["supervisord"] == "4.3.0" and found["kernel"] == os.uname().release
    )
    assert pyspy.find_pyspy() is not None
