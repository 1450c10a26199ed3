"""Collectors run in order, each at its own risk."""

from __future__ import annotations

import threading

import pytest

from watchdog.collect.gather import NO_THREAD, Collector, Found, failed, gather, in_time, skipped


def test_runs_in_order_and_tells_each_how_long_it_has() -> None:
    seen: list[tuple[str, float]] = []

    def collector(name: str, within: float) -> Collector:
        def collect(seconds: float) -> Found:
            seen.append((name, seconds))
            return Found({f"{name}.txt": name}, ("a note",))

        return Collector(name, within, collect)

    outcomes = gather([collector("one", 5.0), collector("two", 50.0)], deadline=110.0, clock=lambda: 100.0)
    assert seen == [("one", 5.0), ("two", 10.0)]
    assert [(o.name, o.status, o.why, o.files) for o in outcomes] == [
        ("one", "ok", "a note", {"one.txt": "one"}),
        ("two", "ok", "a note", {"two.txt": "two"}),
    ]


def test_what_goes_wrong_is_told_and_ends_nothing() -> None:
    release = threading.Event()

    def hang(_: float) -> Found:
        release.wait(60)
        return Found()

    def refuse(_: float) -> Found:
        raise PermissionError(13, "Permission denied", "/x")

    def slow_server(_: float) -> Found:
        raise TimeoutError("timed out in 2 s")

    def silly(_: float) -> Found:
        raise ValueError

    collectors = [
        Collector("hangs", 0.1, hang),
        Collector("refused", 5.0, refuse),
        Collector("slow server", 5.0, slow_server),
        Collector("silly", 5.0, silly),
        Collector("fails", 5.0, lambda _: failed("broken")),
        Collector("skips", 5.0, lambda _: skipped("not there")),
        Collector("works", 5.0, lambda _: Found({"x": 1})),
        Collector("no time", 0.01, lambda _: Found({"y": 1})),
    ]
    outcomes = gather(collectors, deadline=1e12)
    release.set()
    assert [(o.name, o.status, o.why) for o in outcomes] == [
        ("hangs", "timed out", "no answer within 0.1 s; left behind"),
        ("refused", "failed", "[Errno 13] Permission denied: '/x'"),
        ("slow server", "timed out", "timed out in 2 s"),
        ("silly", "failed", "ValueError"),
        ("fails", "failed", "broken"),
        ("skips", "skipped", "not there"),
        ("works", "ok", ""),
        ("no time", "skipped", "no time was left for it"),
    ]
    assert outcomes[0].seconds >= 0.1


def test_where_no_thread_can_be_started_a_collector_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    (outcome,) = gather([Collector("one", 5.0, lambda _: Found({"x": 1}))], deadline=1e12)
    assert (outcome.status, outcome.why) == ("failed", NO_THREAD)


def test_a_bug_escapes_to_the_thread_hook_and_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    escaped: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: escaped.append(args.exc_type.__name__))
    with pytest.raises(ValueError, match="ended by a bug"):
        in_time("division", lambda: 1 / 0, 5.0)
    assert escaped == ["ZeroDivisionError"]
