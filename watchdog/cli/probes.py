"""What `watchdog check` tries, each for real.

May read, dump stacks once, make and remove temporary files, and bind the metrics' address for a moment; changes nothing else.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final, Literal, NamedTuple

from watchdog import procfs
from watchdog.cli.begin import daemon_lives
from watchdog.collect import command, pyspy
from watchdog.collect.logs import read_tail
from watchdog.config import Config
from watchdog.judge.budget import DEADLINE, time_to_recover
from watchdog.judge.detectors import about_silence
from watchdog.look.files import Files
from watchdog.look.places import Places, places_of_all
from watchdog.look.progress import ProgressFile, path_of
from watchdog.model.observation import ProcessInfo
from watchdog.model.rule import Level, Policy, Ruleset
from watchdog.show.status import Unreadable, path_in, read
from watchdog.supervisor import Fault, ProgramSettings, Supervisor

Grade = Literal["ok", "warn", "fail"]

NAME: Final = "watchdog"
"""PyPI's project of file events, which owns the same import package."""


class Check(NamedTuple):
    """One thing that was tried."""

    subject: str
    """What was tried: a program, or a part of the watchdog."""
    grade: Grade
    what: str
    """What was found, and what it means."""
    todo: str = ""
    """What to do; '' when it is ok."""


def of_installation() -> Iterator[Check]:
    """Is another distribution mixed into our import package?"""
    try:
        other = metadata.version(NAME)
    except metadata.PackageNotFoundError:
        yield Check("installation", "ok", "no other distribution named watchdog is installed here")
        return
    yield Check(
        "installation",
        "fail",
        f"PyPI's watchdog {other} (file events) is installed in the same environment: both write the import package watchdog",
        "install worker-watchdog in a virtual environment of its own",
    )


def of_configuration(settings: Config) -> Iterator[Check]:
    """It was loaded, so it is valid."""
    where = f"{settings.path}" if settings.path else "there is none: every program, all built-in rules, mode report"
    yield Check("configuration", "ok", f"{where} ({len(settings.ruleset.signatures)} signatures)")


def of_supervisor(supervisor: Supervisor) -> Iterator[Check]:
    """Who answers, and does it answer for programs?"""
    found = supervisor.identity()
    if isinstance(found, Fault):
        yield of_fault(found)
    else:
        yield Check("supervisord", "ok", f"{found.version} at {supervisor.url}, pid {found.pid}, {found.state}")


def of_fault(fault: Fault) -> Check:
    """supervisord could not be asked."""
    return Check("supervisord", "fail", fault.detail, fault.hint().removeprefix(f"{fault.detail}: "))


def of_pyspy() -> Iterator[Check]:
    """py-spy's version, and whether it may read a child of our own."""
    why_not = pyspy.self_test()
    found = pyspy.find_pyspy()
    version = ""
    if found is not None:
        ran = command.run([str(found), "--version"], within=pyspy.EACH, limit=1 << 16)
        version = f"{ran.out.decode(errors='replace').strip() or 'py-spy'} at {found}"
    if why_not is None:
        yield Check("py-spy", "ok", f"{version}, read a child of our own")
        return
    todo = "without stacks no stall can be confirmed: a rule then goes as far as its `unreadable` key says"
    yield Check("py-spy", "fail", f"{why_not}{'; ' + version if version else ''}", todo)


def of_directories(settings: Config) -> Iterator[Check]:
    """Can evidence, state and snapshots be written, and is there room?"""
    yield _writable("archive", settings.archive.directory, "nothing is stopped while it cannot be written")
    yield from _room(settings)
    yield _writable("state", settings.state, "the daemon needs it to start")
    yield _writable("runtime", settings.runtime, "status and requests go through it")


def _writable(subject: str, directory: Path, meaning: str) -> Check:
    """Writes and removes a file of no name; in the nearest directory that exists where the daemon would make the rest."""
    try:
        there = next((p for p in (directory, *directory.parents) if os.path.lexists(p)), Path("/"))
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"\0" * 4096)
            os.fsync(file.fileno())
    except OSError as error:
        todo = f"{meaning}; make it writable for this user, or run this as the daemon's user"
        return Check(subject, "fail", f"{directory} cannot be written: {error.strerror}", todo)
    made = "" if there == directory else f", and will be made below {there}"
    return Check(subject, "ok", f"{directory} can be written{made}")


def _room(settings: Config) -> Iterator[Check]:
    directory = settings.archive.directory
    try:
        there = next((p for p in (directory, *directory.parents) if p.is_dir()), Path("/"))
        disk = os.statvfs(there)
    except OSError:  # whoever may not enter it is told so by `_writable`
        return
    free = disk.f_bavail / disk.f_blocks if disk.f_blocks else 1.0
    if free < settings.archive.keep.free:
        yield Check(
            "archive",
            "warn",
            f"only {free:.0%} of its disk is free, and {settings.archive.keep.free:.0%} are to stay free: old bundles will go",
            "make room, or lower archive.keep.free",
        )


def of_metrics(settings: Config) -> Check:
    """Can the address be listened on, or does our own daemon do so?"""
    where = settings.metrics
    if where is None:
        return Check("metrics", "ok", "off, as configured")
    listen = f"{where.host}:{where.port}"
    why_not = _cannot_listen(where.host, where.port)
    if why_not is None:
        return Check("metrics", "ok", f"{listen} can be listened on")
    found = read(path_in(settings.runtime), time.time())
    if not isinstance(found, Unreadable) and found["metrics"] == listen and daemon_lives(found):
        return Check("metrics", "ok", f"{listen} is served by the daemon (pid {found['daemon']['pid']})")
    todo = "set metrics.listen to a free address of this host, to port 0 for any free port, or metrics to off"
    return Check("metrics", "fail", f"{listen} cannot be listened on, so nothing can be scraped: {why_not}", todo)


def _cannot_listen(host: str, port: int) -> str | None:
    """Why not; None: it can be, which was tried as the daemon does it (SO_REUSEADDR)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def of_patterns(ruleset: Ruleset, programs: Mapping[str, ProcessInfo]) -> Iterator[Check]:
    """A pattern that matches nothing is kept, since its program may appear; it is also how a slip of the keys looks."""
    if not programs:
        yield Check("programs", "warn", "supervisord has none", "nothing is watched until it has")
    matched = {id(ruleset.policy_for(name)) for name in programs}
    for policy in ruleset.policies if programs else ():
        if id(policy) not in matched:
            yield Check(
                policy.match,
                "warn",
                "no program is watched by this entry of `programs`: none matches, or an earlier entry matches first",
                "compare with `supervisorctl status`; names are group:name. It is kept, its program may appear",
            )


WORDS = 500
"""Lines of each log on which patterns are tried."""
LONGEST_WORDS = 4096
"""Characters of a line on which they are tried, as the daemon does."""
SHOWN = 100


class Seen(NamedTuple):
    """What was found of all programs, for the checks of one."""

    places: Mapping[str, Places]
    settings: Mapping[str, ProgramSettings]
    """Empty: this supervisord did not tell."""


def see(processes: Mapping[str, ProcessInfo], ruleset: Ruleset, settings: Mapping[str, ProgramSettings]) -> Seen:
    """Where every program's logs are: the unwatched ones may write to a watched one's."""
    files = Files()
    try:
        return Seen(places_of_all(processes, ruleset, files), settings)
    finally:
        files.close()


def of_program(info: ProcessInfo, policy: Policy, interval: float, seen: Seen) -> Iterator[Check]:
    """One watched program: its heartbeats, its stacks, and whether the rules are quick enough."""
    places = seen.places[info.program]
    yield from _logs(info.program, places)
    yield from _words(info.program, policy, places)
    file = policy.progress.file if policy.progress is not None else None
    if file is not None and info.pid:
        yield _progress_file(info, file)
    has_log = bool(places.streams) and not places.shared
    if file is None and not has_log and any(about_silence(g) for r in policy.rules for g in r.when):
        todo = "give it a log file of its own, or configure progress.file; until then it is reported at most"
        yield Check(info.program, "fail", "blind: it has no heartbeat of its own, so no stall group can fire", todo)
    if info.pid and policy.mode > Level.OBSERVE:
        yield _stacks(info)
    settings = seen.settings.get(info.program)
    startsecs = settings.startsecs if settings is not None and settings.startsecs is not None else info.startsecs
    yield from _times(info.program, policy, interval, float(startsecs))


def _logs(program: str, places: Places) -> Iterator[Check]:
    for trouble in places.troubles:
        yield Check(
            program, "warn", trouble, "`stdout_logfile` and `stderr_logfile` of supervisord's configuration say where"
        )
    for path in places.streams:
        found = read_tail(path, lines=1, limit=4096)
        if found.why is not None:
            todo = "see that it is a regular file that this user may read; until then it is unknown, which never fires"
            yield Check(program, "fail", f"log cannot be read: {found.why}", todo)
        elif not places.shared:
            yield Check(program, "ok", f"log {path} can be read")


def _words(program: str, policy: Policy, places: Places) -> Iterator[Check]:
    """Do the patterns for progress and idle match what the program writes, and is there one for each?"""
    asked = policy.progress
    patterns = {"progress.log": asked.log if asked else None, "idle": policy.idle.line if policy.idle else None}
    lines = [] if places.shared else [line for path in places.streams for line in read_tail(path, lines=WORDS).lines]
    for key, pattern in patterns.items():
        if pattern is not None and lines:
            yield _word(program, key, pattern, lines)
    if asked is not None and asked.file is None and policy.idle is None:
        yield Check(
            program,
            "warn",
            "nothing says whether it has work: where its processes wait for each other, that cannot be told from waiting for a job",
            "add `idle`, its idle line, or a progress file with state, in_flight or total; until then such a stall is unknown",
        )


def _word(program: str, key: str, pattern: str, lines: Sequence[str]) -> Check:
    found = [line for line in lines if re.search(pattern, line[:LONGEST_WORDS])]
    if found:
        what = f"{key} matches {len(found)} of the last {len(lines)} lines, last: {found[-1][:SHOWN]}"
        return Check(program, "ok", what)
    todo = f"compare it with what it wrote last: {lines[-1][:SHOWN]}"
    return Check(program, "warn", f"{key} matches none of the last {len(lines)} lines", todo)


def _progress_file(info: ProcessInfo, template: str) -> Check:
    """Read as the daemon reads it: regular, whole, of a bearable size, and written by this process."""
    ident = procfs.identity_of(info.pid)
    if ident is None:
        return Check(info.program, "warn", f"pid {info.pid} has just ended", "try again")
    path = path_of(template, info, ident)
    age = procfs.seconds_since_start(ident.starttime)
    files = Files()
    try:
        seen = ProgressFile(files).look(path, None if age is None else int((time.time() - age) * 1e9))
    finally:
        files.close()
    if seen.trouble is not None:
        unknown = "; until then it is unknown, which never fires" if seen.progress is None else ""
        todo = f"see that the worker writes it as README says, and that this user may read it{unknown}"
        return Check(info.program, "fail" if seen.progress is None else "warn", seen.trouble, todo)
    if seen.progress == 0:
        what = f"progress file {path} is not there, or was last written before this process began: no progress yet"
        return Check(info.program, "warn", what, "see that progress.file names what the worker writes")
    return Check(info.program, "ok", f"progress file {path} can be read")


def _stacks(info: ProcessInfo) -> Check:
    """Some process of the tree must be readable: the main one may be a shell."""
    reasons = []
    for sample in procfs.walk(info.pid):
        why_not = pyspy.try_target(sample.pid)
        if why_not is None:
            return Check(info.program, "ok", f"stacks of pid {sample.pid} can be read")
        reasons.append(why_not)
    todo = "its stalls cannot be confirmed by stacks: a rule then goes as far as its `unreadable` key says"
    return Check(info.program, "warn", reasons[0] if reasons else f"pid {info.pid} has just ended", todo)


def _times(program: str, policy: Policy, interval: float, startsecs: float) -> Iterator[Check]:
    for rule in policy.rules:
        if not any(about_silence(group) for group in rule.when):
            continue
        seconds = time_to_recover(rule, interval, startsecs)
        if seconds > DEADLINE:
            yield Check(
                program,
                "warn",
                f"rule {rule.name} may take {seconds:.0f} s from the last progress to the next, more than {DEADLINE:.0f} s",
                f"shorten its silence or its verify, or the program's startsecs ({startsecs:g} s)",
            )
