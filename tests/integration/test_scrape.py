"""Prometheus' own tool on a scrape of the real daemon beside a real supervisord. `slow`: promtool is not on every machine."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator

import pytest

from tests.bench import host

SIZE = host.Size(programs=3, processes=2, every=1.0, interval=1.0)


@pytest.fixture(scope="module")
def scrape() -> Iterator[bytes]:
    with host.workers(SIZE) as supervisord, host.daemon(supervisord, SIZE):
        snapshot = host.snapshot(supervisord.directory)
        assert snapshot is not None
        with urllib.request.urlopen(f"http://{snapshot['metrics']}/metrics", timeout=10) as answer:
            yield answer.read()


@pytest.mark.slow
def test_promtool_has_nothing_to_say(scrape: bytes) -> None:
    done = subprocess.run(["promtool", "check", "metrics"], check=False, input=scrape, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.slow
def test_every_program_is_scraped(scrape: bytes) -> None:
    for program in ("bench:bench_00", "bench:bench_01", "bench:bench_02"):
        assert f'watchdog_program_phase{{phase="WATCHING",program="{program}"}} 1.0'.encode() in scrape
