"""A real, private supervisord for tests: started in a short temporary folder, and ended with all that came of it.

In a test, use the fixture `supervisord` (tests/integration/conftest.py; another folder's conftest.py imports it from here):

    def test_x(supervisord: StartSupervisord) -> None:
        host = supervisord({"worker": {"command": "sleep 60", "startsecs": 0}})
        host.wait_for("worker:worker", "RUNNING")
        host.rpc.stop("worker:worker")

Elsewhere `with Supervisord({...}) as host: ...` does the same.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

import psutil
import pytest

from watchdog.model.observation import ProcessInfo
from watchdog.supervisor import Fault, Supervisor

Programs = Mapping[str, Mapping[str, object]]
"""[program:NAME] sections. stdout_logfile and stderr_logfile default to files in the folder, see `Supervisord.log`."""

START_WITHIN = 20.0
STOP_WITHIN = 4.0

CONFIG = """\
[supervisord]
identifier={identifier}
nodaemon=true
logfile={directory}/supervisord.log
pidfile={directory}/supervisord.pid
childlogdir={directory}
directory={directory}
minfds=256
minprocs=1

[unix_http_server]
file={directory}/s
{login}

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""


class Supervisord:
    """One running supervisord.

    Args:
        programs: sections to be, each a mapping of options; `%` in values is supervisord's own expansion.
        text: more of the configuration, as written: groups, event listeners.
        http: also listen on TCP, 127.0.0.1 and a port that the kernel chose.
        user, password: wanted on every socket, and given to `rpc`.
        timeout: seconds, of `rpc`.
        stop_within: seconds that programs get to end by themselves when this is closed, before SIGKILL.
    Raises RuntimeError, with supervisord's output, if it does not answer within 20 s.
    """

    def __init__(
        self,
        programs: Programs | None = None,
        text: str = "",
        *,
        http: bool = False,
        user: str | None = None,
        password: str | None = None,
        timeout: float = 5.0,
        stop_within: float = STOP_WITHIN,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = _short_directory()
        self.socket = self.directory / "s"
        self.url = f"unix://{self.socket}"
        self._port = _reserve_port() if http else None
        self.http_url = f"http://127.0.0.1:{self._port.getsockname()[1]}" if self._port else None
        self.user, self.password = user, password
        self.rpc = Supervisor(self.url, user, password, timeout)
        self.stop_within = stop_within
        self.config = self.directory / "supervisord.conf"
        self.write_config(programs or {}, text)
        try:
            self._warden = self._launch(env or {})
            self.pid = int(_line(self._warden))
            self._wait_until_it_answers()
        except BaseException:  # an interrupted start leaves nothing behind either
            self.close()
            raise

    def write_config(self, programs: Programs, text: str = "") -> None:
        """Write the configuration anew; for `reloadConfig` and `supervisorctl update`."""
        login = f"username={self.user}\npassword={self.password}" if self.user is not None else ""
        parts = [CONFIG.format(directory=self.directory, identifier=self.directory.name, login=login)]
        if self.http_url is not None:
            parts.append(f"[inet_http_server]\nport={self.http_url.removeprefix('http://')}\n{login}\n")
        parts += [self._section(name, options) for name, options in programs.items()]
        self.config.write_text("\n".join([*parts, text, ""]))

    def _section(self, name: str, options: Mapping[str, object]) -> str:
        number = "_%(process_num)02d" if int(str(options.get("numprocs", 1))) > 1 else ""
        whole: dict[str, object] = {
            "process_name": f"%(program_name)s{number}",
            "stdout_logfile": f"{self.directory}/{name}{number}.stdout",
            "stderr_logfile": f"{self.directory}/{name}{number}.stderr",
            **options,
        }
        return "\n".join([f"[program:{name}]", *(f"{key}={value}" for key, value in whole.items()), ""])

    def log(self, process: str, stream: str = "stdout") -> Path:
        """Where a process (the part after the colon) writes, unless its section said otherwise."""
        return self.directory / f"{process}.{stream}"

    def own_log(self) -> str:
        """All that supervisord said so far: its log, and what it printed beside it."""
        return (self.directory / "supervisord.out").read_text(errors="replace")

    def info(self, program: str) -> ProcessInfo:
        """What supervisord says of `group:name` now. Raises AssertionError when it does not answer."""
        info = self.rpc.process(program)
        assert not isinstance(info, Fault), info
        return info

    def wait_for(self, program: str, *states: str, within: float = 10.0) -> ProcessInfo:
        """Until `group:name` is in one of `states`. Raises AssertionError with supervisord's log after `within` seconds."""
        until = time.monotonic() + within
        while (info := self.info(program)).state not in states:
            assert time.monotonic() < until, f"{program} is {info.state}, not {states}\n{self.own_log()}"
            time.sleep(0.02)
        return info

    def freeze(self) -> None:
        """SIGSTOP: it accepts connections (the kernel does) and answers none. Returns when it is stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        process = psutil.Process(self.pid)
        until = time.monotonic() + 5
        while process.status() != psutil.STATUS_STOPPED and time.monotonic() < until:
            time.sleep(0.005)

    def thaw(self) -> None:
        """SIGCONT; harmless when it was not frozen."""
        os.kill(self.pid, signal.SIGCONT)

    def descendants(self) -> list[int]:
        """Pids of all that came of it and still lives, orphans included."""
        family = psutil.Process(self._warden.pid).children(recursive=True)
        return [process.pid for process in family if process.pid != self.pid]

    def close(self) -> None:
        """End it and everything that came of it, and remove the folder. Raises AssertionError naming what would not end."""
        warden = getattr(self, "_warden", None)
        if warden is not None:
            self._ask_to_end(warden.pid)
            with warden:  # closes its stdin, and waits for it
                pass
            del self._warden
            assert warden.returncode == 0, self.own_log()
        if self._port is not None:
            self._port.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _ask_to_end(self, warden: int) -> None:
        """SIGTERM to supervisord, which stops its programs in good order; what is left then gets SIGKILL from the warden."""
        family = {child.pid: child for child in psutil.Process(warden).children()}
        process = family.get(getattr(self, "pid", 0))
        if process is None:
            return
        try:
            process.resume()
            process.terminate()
            process.wait(self.stop_within)
        except (psutil.NoSuchProcess, psutil.TimeoutExpired):
            pass

    def __enter__(self) -> Supervisord:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _launch(self, env: Mapping[str, str]) -> subprocess.Popen[str]:
        warden = Path(__file__).with_name("warden.py")
        command = [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(self.config)]
        return subprocess.Popen(
            [sys.executable, "-I", str(warden), str(self.directory), str(self.directory / "supervisord.out"), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**{key: value for key, value in os.environ.items() if not key.startswith("SUPERVISOR_")}, **env},
            start_new_session=True,  # Ctrl-C on the test run reaches it through stdin's end, in order
        )

    def _wait_until_it_answers(self) -> None:
        until = time.monotonic() + START_WITHIN
        while isinstance(answer := self.rpc.identity(), Fault):
            if time.monotonic() > until or not psutil.pid_exists(self.pid):
                raise RuntimeError(f"supervisord did not start ({answer})\n{self.own_log()}")
            time.sleep(0.02)


def _line(warden: subprocess.Popen[str]) -> str:
    assert warden.stdout is not None
    return warden.stdout.readline()


def _short_directory() -> Path:
    """A folder whose socket's path stays under the 107 bytes that a unix socket may have."""
    parent = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="sv-", dir=parent if len(os.fsencode(parent)) < 80 else "/tmp"))


def _reserve_port() -> socket.socket:
    """A socket on a free port of 127.0.0.1, bound but not listening. Kept open, it keeps others off the port.

    supervisord refuses port 0. It sets SO_REUSEADDR, as this does, so that it may bind the same port while nobody listens on it.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


StartSupervisord = Callable[..., Supervisord]


@pytest.fixture(name="supervisord")
def supervisord_fixture() -> Iterator[StartSupervisord]:
    """A factory of `Supervisord`, with its arguments; each that was started is ended after the test, also when it failed."""
    started: list[Supervisord] = []

    def start(*args: object, **options: object) -> Supervisord:
        started.append(Supervisord(*args, **options))  # type: ignore[arg-type]
        return started[-1]

    try:
        yield start
    finally:
        for host in reversed(started):
            host.close()
