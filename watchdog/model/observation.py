"""What a look saw. May hold values only; may not read anything.

The types made every tick are NamedTuples: a frozen dataclass of this size takes six times as long to build (2.5 against
0.4 us on CPython 3.11), and there is one ProcessSample per process and tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal, NamedTuple, get_args


class _Absent(Enum):
    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent.ABSENT
"""A heartbeat that the program does not have. Not the same as None, which is "could not be read"."""

Absent = Literal[_Absent.ABSENT]

Reading = int | Absent | None
"""A heartbeat's value: an int that changes when, and only when, the heartbeat was seen to beat; ABSENT; or None (unknown)."""

Heartbeat = Literal["log", "progress"]

LogStream = Literal["stdout", "stderr", "any"]

GaugeName = Literal["rss", "anon", "shmem", "fds", "fds_ratio", "threads", "processes", "cpu"]
GAUGES: Final[tuple[GaugeName, ...]] = get_args(GaugeName)
"""Names of the gauges of a tree, as rules and `watchdog observe` spell them."""


class Identity(NamedTuple):
    """Who a process is within one boot: a pid alone is reused."""

    pid: int
    starttime: int
    """Clock ticks since boot, field 22 of /proc/PID/stat."""


class MatchKey(NamedTuple):
    """One pattern that a rule wants counted in a program's log."""

    log: LogStream
    pattern: str


class ProcessSample(NamedTuple):
    """One process at one look. Bytes and counts; None is "could not be read"."""

    pid: int
    starttime: int
    ppid: int
    comm: str
    state: str
    """One letter, as in /proc/PID/stat."""
    cpu_s: float
    """User and system CPU seconds since the process began."""
    cores: float | None
    """Cores used since the last look; None at the first."""
    rss: int | None
    anon: int | None
    file: int | None
    shmem: int | None
    fds: int | None
    fd_limit: int | None
    """Soft RLIMIT_NOFILE."""
    threads: int | None

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.starttime)


class Gauges(NamedTuple):
    """The levels of a whole process tree. Bytes, counts, cores; None is "could not be read"."""

    rss: int | None = None
    anon: int | None = None
    shmem: int | None = None
    """Shared memory, counted once however many processes map it, as well as can be told without smaps."""
    fds: int | None = None
    fds_ratio: float | None = None
    """Of the process that is nearest to its soft limit."""
    threads: int | None = None
    processes: int | None = None
    cpu: float | None = None
    """Cores used by the tree since the last look."""


NO_GAUGES: Final = Gauges()


class Observation(NamedTuple):
    """One look at one program."""

    program: str
    """group:name, as supervisord spells it."""
    ident: Identity | None
    """The main process, the pid that supervisord reports; None: not running."""
    log: Reading = ABSENT
    """Bytes by which the program's logs were seen to grow."""
    progress: Reading = ABSENT
    """How often progress was seen to change; 0 is "none yet"."""
    progress_count: int | None = None
    progress_total: int | None = None
    says: Literal["working", "idle"] | None = None
    """`state` of the progress file."""
    in_flight: int | None = None
    idle_line: bool | None = None
    """The idle line is the last record line. None: no idle line is configured, or no line was seen yet."""
    progress_after_idle: bool | None = None
    """A progress line came after the last idle line. None: as above."""
    matches: Mapping[MatchKey, Reading] = {}
    """Lines appended while this main process was watched, by pattern."""
    gauges: Gauges = NO_GAUGES
    cpu_seconds: float | None = None
    """CPU seconds of the tree's living processes."""
    tree: tuple[ProcessSample, ...] = ()
    """The main process first, then its descendants."""
    troubles: tuple[str, ...] = ()
    """What could not be read, in words for an operator; said once by whoever decides."""
    phase: str | None = None
    """`phase` of the progress file, for display."""


class HostSample(NamedTuple):
    """The host at one look, in bytes; None is "could not be read"."""

    mem_total: int | None = None
    mem_available: int | None = None
    shm_total: int | None = None
    shm_used: int | None = None


class ProcessInfo(NamedTuple):
    """What supervisord says of one program."""

    program: str
    """group:name."""
    group: str
    name: str
    state: str
    """STOPPED, STARTING, RUNNING, BACKOFF, STOPPING, EXITED, FATAL or UNKNOWN."""
    pid: int
    """0: none."""
    started_at: int
    """supervisord's `start`: wall-clock seconds, an integer of its clock; good for comparing with itself only."""
    exitstatus: int
    stdout_logfile: str
    """'' when there is none, or it is syslog."""
    stderr_logfile: str
    description: str = ""
    spawnerr: str = ""
    startsecs: float = 1.0
    """From getAllConfigInfo; supervisord's default where it was not told."""
