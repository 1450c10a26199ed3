"""Which collectors an incident has, in which order: what vanishes first, first; what pauses the program, last.

May read through its siblings and call what the caller gave; writes nothing.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath

from watchdog.collect import details, kernel, logs, pyspy
from watchdog.collect.gather import Collector, Found, failed, skipped
from watchdog.collect.render import stacks_text
from watchdog.judge import diagnose, stacks
from watchdog.model.evidence import Evidence
from watchdog.model.world import Case

ENOUGH_DUMPS = 2

MOST_ROWS = 100_000
"""Observations: an hour of 5 s is 720."""

LOG_LINES = 500


@dataclass(frozen=True, slots=True)
class Sources:
    """What only the caller of `seal` knows. Callables run in a thread of their own, under their collector's deadline."""

    history: Iterable[Mapping[str, object]] | Callable[[], Iterable[Mapping[str, object]]] = ()
    """Rows for observations.jsonl, oldest first."""
    process_history: Iterable[Mapping[str, object]] | Callable[[], Iterable[Mapping[str, object]]] = ()
    """Rows for processes.jsonl, one for each process and minute, oldest first."""
    supervisor_view: Callable[[], object] | None = None
    """What supervisord says of the program: any JSON value, or text."""
    supervisor_log: Callable[[], str] | None = None
    """The last lines of supervisord's own log."""
    logs: tuple[str, ...] = ()
    """Paths of the program's logs."""
    config: str = ""
    """The configuration file, whole: which of its entries is about the program depends on those before it."""
    versions: Callable[[], Mapping[str, str]] | None = None
    """What others are asked for their versions, for example {"supervisord": "4.3.0"}."""
    proc: Path = details.PROC
    shm: Path = kernel.SHM
    kmsg: Path = kernel.KMSG
    etc: Path = kernel.ETC


class Collecting:
    """The collectors of one case, and what they learn for each other."""

    def __init__(self, case: Case, sources: Sources) -> None:
        self.case = case
        self.sources = sources
        self.evidence: Evidence = case.evidence
        """With the dumps that were taken here, if any were."""
        self.known: tuple[str, ...] = ()
        """Secret values, to be hidden; never written."""
        self._began = time.monotonic()
        self._versions: Mapping[str, str] = {}
        """What others told of their versions."""

    def collectors(self) -> list[Collector]:
        """In the order in which they are to run. Seconds are several times what each needs on a loaded host."""
        src, tree = self.sources, self.case.tree
        few = len(self.case.evidence.dumps) < ENOUGH_DUMPS
        none = not self.case.evidence.dumps
        dump = Collector("stacks", 8.0, self._dump)
        return [
            *([dump] if few else []),
            Collector("threads", 3.0, lambda _: details.threads(tree, src.proc)),
            Collector("status", 2.0, lambda _: details.statuses(tree, src.proc)),
            Collector("descriptors", 3.0, lambda _: details.descriptors(tree, src.proc)),
            Collector("environment names", 6.0, self._environments),
            Collector("supervisor", 5.0, self._supervisor_view),
            Collector("shared memory", 3.0, lambda _: kernel.shared_memory(src.shm)),
            Collector("host", 2.0, lambda _: kernel.host(src.proc)),
            Collector("kernel log", 2.0, lambda _: kernel.log(src.kmsg)),
            Collector("logs", 6.0, self._logs),
            Collector("supervisor log", 5.0, self._supervisor_log),
            Collector("observations", 3.0, self._history),
            Collector("command lines", 6.0, lambda within: details.commands(tree, within, src.proc)),
            Collector("memory maps", 8.0, lambda within: details.memory(tree, within, src.proc)),
            Collector("logind", 3.0, self._logind),
            Collector("supervisor version", 5.0, self._ask_versions),
            Collector("versions", 2.0, lambda within: kernel.versions(self._versions, within=within)),
            Collector("configuration", 1.0, self._config),
            *([dump._replace(name="stacks again")] if none else []),
            Collector("native stacks", 6.0, self._native),
        ]

    def judged(self) -> dict[str, object]:
        """What the core knows already: by file, in the order in which a reader wants them."""
        case = self.case
        return {
            "evidence.json": stacks.evidence_to(self.evidence),
            "diagnosis.json": diagnose.as_json(case.diagnosis),
            "stacks.txt": stacks_text(self.evidence.dumps),
            "findings.json": [asdict(finding) for finding in case.findings],
            "trace.txt": "".join(f"{line}\n" for line in case.trace),
            "tree.json": [sample._asdict() for sample in case.tree],
        }

    def _dump(self, within: float) -> Found:
        """One more dump of the tree into the evidence."""
        said: list[str] = []
        taken = self.evidence.dumps
        # The clock of the dumps that came with the case is not ours: ours began no earlier than its last one.
        at_s = (taken[-1].at_s if self.case.evidence.dumps else 0.0) + (
            time.monotonic() - self._began if taken else 0.0
        )
        dump = pyspy.dump_tree(
            self.case.tree, self.case.ident.pid, at_s=round(at_s, 3), within=within - 1.0, tell=said.append
        )
        self.evidence = replace(self.evidence, dumps=(*taken, dump))
        said += [f"process {p.pid}: {p.error}" for p in dump.processes if p.error is not None and p.python is not False]
        readable = any(p.error is None for p in dump.processes)
        return Found({}, tuple(said), "ok" if readable else "failed")

    def _environments(self, within: float) -> Found:
        found, self.known = details.environments(self.case.tree, within, self.sources.proc)
        return found

    def _supervisor_view(self, within: float) -> Found:
        if self.sources.supervisor_view is None:
            return skipped("there is no supervisor to ask")
        view = self.sources.supervisor_view()
        return Found({"supervisor.json": {"text": view} if isinstance(view, str) else view})

    def _supervisor_log(self, within: float) -> Found:
        if self.sources.supervisor_log is None:
            return skipped("there is no supervisor to ask")
        return Found({"supervisord.log": self.sources.supervisor_log()})

    def _logs(self, within: float) -> Found:
        if not self.sources.logs:
            return skipped("the program has no log files")
        files: dict[str, object] = {}
        notes = []
        for number, path in enumerate(self.sources.logs):
            tail = logs.read_tail(path, lines=LOG_LINES, within=within / len(self.sources.logs))
            if tail.why is not None:
                notes.append(tail.why)
                continue
            name = re.sub(r"[^A-Za-z0-9._-]", "_", PurePosixPath(path).name) or "log"
            head = f"# the last {len(tail.lines)} lines of {path}, {tail.size} bytes\n"
            files[f"logs/{number}-{name[-80:]}.txt"] = head + "".join(f"{line}\n" for line in tail.lines)
        return Found(files, tuple(notes), "ok" if files else "failed")

    def _history(self, within: float) -> Found:
        named = {
            "observations.jsonl": _newest(self.sources.history),
            "processes.jsonl": _newest(self.sources.process_history),
        }
        found = {name: rows for name, rows in named.items() if rows}
        return Found(found) if found else skipped("nothing was observed yet")

    def _ask_versions(self, within: float) -> Found:
        """A collector of its own, so that a supervisord that hangs does not cost the versions that are known without it."""
        if self.sources.versions is None:
            return skipped("there is nobody to ask")
        self._versions = self.sources.versions()
        return Found()

    def _logind(self, within: float) -> Found:
        uids = kernel.uids_of(self.case.tree, self.sources.proc)
        return kernel.logind(uids, within=within * 0.8, etc=self.sources.etc)

    def _config(self, within: float) -> Found:
        return Found({"config.yaml": self.sources.config}) if self.sources.config else skipped("there is none")

    def _native(self, within: float) -> Found:
        pid = self.case.ident.pid
        text, why = pyspy.native_dump(self.case.ident, within * 0.8)
        if text is not None:
            return Found({f"processes/{pid}/native-stacks.txt": text})
        return (skipped if "not tried" in (why or "") else failed)(why or "it said nothing")


def _newest(
    rows: Iterable[Mapping[str, object]] | Callable[[], Iterable[Mapping[str, object]]],
) -> list[Mapping[str, object]]:
    """At most MOST_ROWS, oldest first."""
    return list(deque(rows() if callable(rows) else rows, MOST_ROWS))
