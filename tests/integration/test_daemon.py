"""The daemon's life against a real supervisord: its locks, signals, configuration, and what it finishes from the journal alone."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons import GONE_WITHIN, WITHIN, Daemon, daemon
from tests.supervisord import StartSupervisord, Supervisord
from watchdog import journal
from watchdog.daemon import FINISH_WITHIN, known
from watchdog.journal import Journal
from watchdog.model.record import IncidentRecord
from watchdog.model.world import Transaction
from watchdog.procfs import boot_id, identity_of

SLEEPS = {"command": "sleep 1000", "startsecs": 0}
STUBBORN = {
    "command": f"{sys.executable} -c \"import signal,time; signal.signal(15, 1); print('up', flush=True); time.sleep(999)\"",
    "startsecs": 0,
    "stopwaitsecs": 600,
}


@pytest.fixture
def host(supervisord: StartSupervisord) -> Supervisord:
    return supervisord({"sleeper": SLEEPS})


@pytest.fixture
def watched(host: Supervisord) -> Iterator[Daemon]:
    with daemon(host) as made:
        yield made


def test_sigterm_ends_it_at_once(watched: Daemon) -> None:
    watched.start()
    watched.wait_watching()
    began = time.monotonic()
    assert watched.end() == 0
    assert time.monotonic() - began < GONE_WITHIN, watched.text()


def test_a_log_that_nobody_reads_holds_up_nothing(watched: Daemon) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"." * 512)
    except BlockingIOError:
        os.set_blocking(writer, True)
    command = [sys.executable, "-m", "watchdog", "-c", str(watched.config), "run"]
    watched.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    watched.wait_watching()
    began = time.monotonic()
    assert watched.end() == 0
    assert time.monotonic() - began < GONE_WITHIN
    os.close(reader)


def test_a_second_daemon_on_the_same_state_directory_is_refused_and_names_the_first(watched: Daemon) -> None:
    first = watched.start()
    watched.wait_watching()
    second = subprocess.run(
        [sys.executable, "-m", "watchdog", "-c", str(watched.config), "run"],
        capture_output=True,
        check=False,
        text=True,
        timeout=WITHIN,
    )
    assert second.returncode == 3
    assert f"pid {first.pid}" in second.stderr
    assert str(watched.folder / "state") in second.stderr


def test_a_second_daemon_on_the_same_supervisord_is_refused_and_names_the_first(
    host: Supervisord, watched: Daemon
) -> None:
    first = watched.start()
    watched.wait_watching()
    with daemon(host) as other:
        assert other.run() == 3
        assert f"pid {first.pid}" in other.text()
        assert host.url in other.text()


def test_a_broken_configuration_is_refused_at_start_with_every_error(watched: Daemon) -> None:
    watched.config.write_text(watched.config.read_text() + "interval: 3\nmoode: restart\n")
    assert watched.run() == 2
    assert "interval" in watched.text()
    assert "moode" in watched.text()
    assert "Traceback" not in watched.text()


def test_a_broken_configuration_is_refused_on_reload_and_the_old_one_stays(watched: Daemon) -> None:
    watched.start()
    watched.wait_watching()
    good = watched.config.read_text()
    watched.config.write_text(good.replace("mode: restart", "mode: restrat"))
    watched.process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]
    watched.wait(lambda: "refused, the old one stays" in watched.text(), "the reload is refused")
    assert "restrat" in watched.text()
    assert watched.program("sleeper:sleeper")["mode"] == "restart"
    watched.config.write_text(good.replace("mode: restart", "mode: observe"))
    watched.process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]
    watched.wait(lambda: watched.program("sleeper:sleeper")["mode"] == "observe", "the new mode counts")
    assert watched.end() == 0


def test_supervisord_absent_then_there_is_said_once_each(supervisord: StartSupervisord) -> None:
    host = supervisord({"sleeper": SLEEPS})
    away = host.socket.with_name("away")
    host.socket.rename(away)
    with daemon(host) as made:
        made.start()
        made.wait(lambda: (made.snapshot() or {}).get("supervisor", {}).get("up") is False, "supervisord is missed")
        assert made.text().count("supervisord does not answer") == 1
        away.rename(host.socket)
        made.wait_watching()
        assert made.text().count("supervisord answers") == 1
        assert made.text().count("supervisord does not answer") == 1


def test_a_frozen_supervisord_is_noticed_while_its_programs_are_still_looked_at(
    host: Supervisord, watched: Daemon
) -> None:
    watched.config.write_text(watched.config.read_text().replace("{url: ", "{timeout: 1s, url: "))
    watched.start()
    watched.wait_watching()
    host.freeze()
    pid = host.pid
    os.kill(watched.process.pid, signal.SIGHUP)  # type: ignore[union-attr]  # asks supervisord at once
    watched.wait(lambda: (watched.snapshot() or {})["supervisor"]["up"] is False, "the freeze is noticed")
    ticks = (watched.snapshot() or {})["daemon"]["ticks"]
    watched.wait(lambda: (watched.snapshot() or {})["daemon"]["ticks"] > ticks + 2, "it goes on looking")
    assert watched.program("sleeper:sleeper")["rss"] > 0
    host.thaw()
    watched.wait_watching()
    assert host.pid == pid


def test_directories_are_made_for_nobody_else(watched: Daemon) -> None:
    watched.start()
    watched.wait_watching()
    for name in ("state", "run"):
        assert stat.S_IMODE((watched.folder / name).stat().st_mode) & 0o027 == 0, name


def test_a_runtime_directory_that_was_removed_is_made_again(watched: Daemon) -> None:
    watched.start()
    watched.wait_watching()
    shutil.rmtree(watched.folder / "run")
    watched.wait(lambda: watched.program("sleeper:sleeper"), "the snapshot is there again")
    assert (watched.folder / "run" / "requests").is_dir()
    assert watched.end() == 0


def test_a_pattern_that_matches_nothing_is_said_and_kept(watched: Daemon) -> None:
    watched.config.write_text(watched.config.read_text().replace("programs:\n", "programs:\n  - match: 'nobody:*'\n"))
    watched.start()
    watched.wait_watching()
    watched.wait(lambda: "nobody:*" in watched.text(), "the pattern is named")
    assert watched.end() == 0


def test_pause_and_resume_say_what_the_daemon_did(watched: Daemon) -> None:
    watched.start()
    watched.wait_watching()
    assert command(watched, "pause", "sleeper:*", "--for", "20m") == (0, "sleeper:sleeper: paused for 20 min\n")
    assert "paused" in watched.program("sleeper:sleeper")["flags"]
    assert command(watched, "resume", "sleeper:sleeper") == (0, "sleeper:sleeper: watched again\n")
    assert watched.program("sleeper:sleeper")["flags"] == []
    assert watched.end() == 0


def command(made: Daemon, *arguments: str) -> tuple[int, str]:
    whole = [sys.executable, "-m", "watchdog", "-c", str(made.config), *arguments]
    done = subprocess.run(whole, capture_output=True, check=False, text=True, timeout=WITHIN)
    return done.returncode, done.stdout + done.stderr


# What a dead daemon left open


def left_open(made: Daemon, host: Supervisord, program: str, **changes: object) -> Transaction:
    """A journal as a daemon leaves it that was killed in the middle of a restart of `program`."""
    info = host.info(program)
    ident = identity_of(info.pid) if info.pid else None
    base: dict[str, object] = {
        "incident": "20261130T030557Z-x-1",
        "program": program,
        "rule": "stall",
        "group": "everything is silent",
        "ident": ident,
        "boot_id": boot_id(),
        "tree": (ident,),
        "step": "intent",
        "opened_wall": time.time() - 30.0,
        "started_at": info.started_at,
        "stop_within": 1.0,
        "start_within": 15.0,
        "verify_within": 20.0,
        "cooldown": 60.0,
    }
    transaction = Transaction(**{**base, **changes})  # type: ignore[arg-type]
    Journal(made.folder / "state").append(
        [IncidentRecord(transaction.incident, program, transaction.opened_wall, "stall", "g"), transaction]
    )
    known.remember(made.folder / "state", known.recall(Path("/nonexistent")), host.url)
    return transaction


def test_an_intent_whose_process_is_alive_is_closed_and_nothing_is_touched(host: Supervisord, watched: Daemon) -> None:
    pid = host.wait_for("sleeper:sleeper", "RUNNING").pid
    left_open(watched, host, "sleeper:sleeper")
    assert watched.run("--finish") == 0
    assert host.info("sleeper:sleeper").pid == pid
    assert watched.outcomes("sleeper:sleeper") == ["cleared"]
    assert watched.run("--finish") == 0
    assert watched.outcomes("sleeper:sleeper") == ["cleared"]


def test_a_program_that_the_dead_daemon_stopped_is_started_again(host: Supervisord, watched: Daemon) -> None:
    host.wait_for("sleeper:sleeper", "RUNNING")
    left_open(watched, host, "sleeper:sleeper")
    host.rpc.stop("sleeper:sleeper")
    host.wait_for("sleeper:sleeper", "STOPPED")
    assert watched.run("--finish") == 0, watched.text()
    assert host.info("sleeper:sleeper").state == "RUNNING"


def test_a_broken_configuration_does_not_leave_a_program_down(host: Supervisord, watched: Daemon) -> None:
    host.wait_for("sleeper:sleeper", "RUNNING")
    left_open(watched, host, "sleeper:sleeper")
    host.rpc.stop("sleeper:sleeper")
    host.wait_for("sleeper:sleeper", "STOPPED")
    watched.config.write_text(watched.config.read_text() + "programs: [\n")
    assert watched.run() == 2
    assert host.info("sleeper:sleeper").state == "RUNNING"


def test_a_program_that_ignores_term_is_killed_at_the_deadline_and_started(supervisord: StartSupervisord) -> None:
    host = supervisord({"stubborn": STUBBORN})
    host.wait_for("stubborn:stubborn", "RUNNING")
    with daemon(host) as made:
        made.wait(lambda: "up" in host.log("stubborn").read_text(), "it ignores TERM")
        old = left_open(made, host, "stubborn:stubborn").ident.pid
        host.rpc.stop("stubborn:stubborn")
        assert host.info("stubborn:stubborn").state == "STOPPING"
        assert made.run("--finish") == 0, made.text()
        found = host.info("stubborn:stubborn")
        assert found.state == "RUNNING"
        assert found.pid != old


def test_a_program_whose_new_process_an_operator_stopped_is_left_alone(host: Supervisord, watched: Daemon) -> None:
    pid = host.wait_for("sleeper:sleeper", "RUNNING").pid
    left_open(watched, host, "sleeper:sleeper", step="started", new_pid=pid)
    host.rpc.stop("sleeper:sleeper")
    host.wait_for("sleeper:sleeper", "STOPPED")
    assert watched.run("--finish") == 0
    watched.start()
    watched.wait_watching()
    watched.wait(lambda: watched.outcomes("sleeper:sleeper") == ["cleared"], "the incident is closed")
    assert host.info("sleeper:sleeper").state == "STOPPED"


def test_survivors_of_a_stopped_tree_are_ended_before_the_start(supervisord: StartSupervisord) -> None:
    child_of_its_own = "subprocess.Popen(['sleep','777'], start_new_session=True).pid"
    code = f"import subprocess,time; print({child_of_its_own}, flush=True); time.sleep(999)"
    host = supervisord({"parent": {"command": f'{sys.executable} -c "{code}"', "startsecs": 0}})
    host.wait_for("parent:parent", "RUNNING")
    with daemon(host) as made:
        made.wait(lambda: host.log("parent").read_text().strip().isdigit(), "the child is there")
        child = identity_of(int(host.log("parent").read_text()))
        main = identity_of(host.info("parent:parent").pid)
        left_open(made, host, "parent:parent", tree=(main, child))
        host.rpc.stop("parent:parent")
        host.wait_for("parent:parent", "STOPPED")
        assert child is not None
        assert identity_of(child.pid) == child
        assert made.run("--finish") == 0, made.text()
        assert identity_of(child.pid) != child
        assert host.info("parent:parent").state == "RUNNING"


@pytest.fixture
def owing(host: Supervisord, watched: Daemon) -> Daemon:
    """A daemon whose journal owes `sleeper` its start, while supervisord is away."""
    host.wait_for("sleeper:sleeper", "RUNNING")
    left_open(watched, host, "sleeper:sleeper")
    host.rpc.stop("sleeper:sleeper")
    host.wait_for("sleeper:sleeper", "STOPPED")
    host.socket.rename(away(host))
    return watched


def away(host: Supervisord) -> Path:
    return host.socket.with_name("away")


def test_finish_waits_while_supervisord_is_away_and_starts_when_it_is_back(host: Supervisord, owing: Daemon) -> None:
    process = owing.start("--finish")
    owing.wait(lambda: "supervisord does not answer" in owing.text(), "it has asked")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.0)
    away(host).rename(host.socket)
    assert process.wait(WITHIN) == 0, owing.text()
    assert host.info("sleeper:sleeper").state == "RUNNING"


@pytest.mark.slow
def test_finish_without_supervisord_names_what_is_owed_and_how_to_start_it(owing: Daemon) -> None:
    assert owing.start("--finish").wait(FINISH_WITHIN + WITHIN) == 1
    (line,) = [line for line in owing.text().splitlines() if "a start is still owed" in line]
    assert "program=sleeper:sleeper" in line
    assert "supervisorctl start sleeper:sleeper" in line


@pytest.mark.parametrize("arguments", [("--finish",), ()])
def test_told_to_end_while_it_finishes_without_supervisord_it_is_gone_at_once(
    owing: Daemon, arguments: tuple[str, ...]
) -> None:
    """Nothing can be finished now; the next daemon, or --finish, goes on from the journal."""
    owing.start(*arguments)
    owing.wait(lambda: "supervisord does not answer" in owing.text(), "it has asked")
    began = time.monotonic()
    assert owing.end() == 1
    assert time.monotonic() - began < GONE_WITHIN
    assert "supervisorctl start sleeper:sleeper" in owing.text()
    assert "sleeper:sleeper" in journal.read(owing.folder / "state").transactions
