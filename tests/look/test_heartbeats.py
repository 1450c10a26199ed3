"""What a program's logs tell. Real files."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from watchdog.look.files import Files
from watchdog.look.heartbeats import LogHeartbeats, LogSeen, Stream, whole_number, without_stamp
from watchdog.model.observation import ABSENT, MatchKey
from watchdog.model.rule import Group, Idle, Matches, Policy, Progress, Rule

BATCH = r"\] Batch (?P<count>\d+)(?: of (?P<total>\d+))?: [\d.]+s/image"
MARKER = "could not unlink the shared memory file"
STDERR, STDOUT, ANY = MatchKey("stderr", MARKER), MatchKey("stdout", "warning"), MatchKey("any", "torch")


def rule_with(*keys: MatchKey) -> Rule:
    return Rule("stall", "", (Group("marked", tuple(Matches(key.log, key.pattern, 600.0) for key in keys)),))


POLICY = Policy("*", rules=(rule_with(STDERR, STDOUT, ANY),), progress=Progress(log=BATCH), idle=Idle("No jobs found"))


class Logs:
    """The two logs of one program, and what looks at them."""

    def __init__(self, files: Files, directory: Path) -> None:
        self.out, self.err = directory / "out", directory / "err"
        self.out.write_text("earlier\n")
        self.err.write_text("older\n")
        self.heartbeats = LogHeartbeats(files)

    def watch(self, policy: Policy = POLICY, streams: Mapping[str, Stream] | None = None) -> LogSeen:
        both: dict[str, Stream] = {str(self.out): "stdout", str(self.err): "stderr"}
        self.heartbeats.configure(policy, both if streams is None else streams)
        return self.heartbeats.look()

    def say(self, *lines: str) -> LogSeen:
        return self._add(self.out, lines)

    def complain(self, *lines: str) -> LogSeen:
        return self._add(self.err, lines)

    def _add(self, path: Path, lines: tuple[str, ...]) -> LogSeen:
        with path.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        return self.heartbeats.look()


@pytest.fixture
def logs(files: Files, tmp_path: Path) -> Iterator[Logs]:
    logs = Logs(files, tmp_path)
    yield logs
    logs.heartbeats.close()


def batch(number: int, at: str = "03:05:57", took: str = "0.13") -> str:
    return f"2026-11-30 {at} [info     ] Batch {number}: {took}s/image, Classification time: 0.10s"


def test_growth_of_both_logs_is_one_heartbeat(logs: Logs) -> None:
    assert logs.watch().log == 0
    assert logs.say("four").log == 5
    assert logs.complain("sixsix").log == 12
    assert logs.heartbeats.look().log == 12


def test_old_text_is_no_progress_and_no_match(logs: Logs) -> None:
    logs.out.write_text(f"{batch(1)}\n{MARKER} torch warning\n")
    seen = logs.watch()
    assert (seen.progress, seen.progress_count) == (0, None)
    assert seen.matches == {STDERR: 0, STDOUT: 0, ANY: 0}


def test_progress_lines_beat_when_they_differ_but_for_their_time(logs: Logs) -> None:
    logs.watch()
    assert logs.say("Batch contains 4 images").progress == 0
    assert logs.say(batch(46)).progress == 1
    assert logs.say(batch(46, at="03:06:57")).progress == 1
    assert logs.say(batch(46, took="0.14")).progress == 2
    seen = logs.say(batch(47), batch(48))
    assert (seen.progress, seen.progress_count, seen.progress_total) == (4, 48, None)
    assert logs.heartbeats.look() == seen


def test_counts_come_from_named_groups(logs: Logs) -> None:
    logs.watch()
    seen = logs.say("[x] Batch 3 of 12: 0.5s/image")
    assert (seen.progress_count, seen.progress_total) == (3, 12)


def test_without_named_groups_there_is_no_count(logs: Logs) -> None:
    logs.watch(Policy("*", progress=Progress(log="done")))
    seen = logs.say("done 12")
    assert (seen.progress, seen.progress_count) == (1, None)


def test_matches_are_counted_in_their_log(logs: Logs) -> None:
    logs.watch()
    logs.say(f"{MARKER} torch_1", "a warning")
    seen = logs.complain(f"RuntimeError: {MARKER} /torch_2", "a warning", f"{MARKER}, torch again")
    assert seen.matches == {STDERR: 2, STDOUT: 1, ANY: 3}


def test_stderr_means_stdout_where_it_has_no_log(logs: Logs) -> None:
    logs.watch(streams={str(logs.out): "stdout"})
    assert logs.say(MARKER).matches[STDERR] == 1


def test_configured_logs_are_searched_for_every_stream(logs: Logs) -> None:
    logs.watch(streams={str(logs.out): "log"})
    assert logs.say(f"torch warning {MARKER}").matches == {STDERR: 1, STDOUT: 1, ANY: 1}


def test_without_logs_everything_is_absent(logs: Logs) -> None:
    seen = logs.watch(streams={})
    assert (seen.log, seen.progress) == (ABSENT, ABSENT)
    assert seen.matches == {STDERR: ABSENT, STDOUT: ABSENT, ANY: ABSENT}
    assert seen.idle_line is None


def test_without_progress_configured_it_is_absent(logs: Logs) -> None:
    seen = logs.watch(Policy("*"))
    assert (seen.log, seen.progress, seen.matches) == (0, ABSENT, {})


def test_one_log_that_cannot_be_read_makes_all_unknown(logs: Logs) -> None:
    logs.err.unlink()
    logs.err.mkdir()
    seen = logs.watch()
    assert (seen.log, seen.progress) == (None, None)
    assert seen.matches == {STDERR: None, STDOUT: 0, ANY: None}
    assert len(seen.troubles) == 1


def test_a_deleted_log_makes_the_heartbeats_absent(logs: Logs) -> None:
    logs.watch()
    logs.out.unlink()
    seen = logs.complain("still here")
    assert (seen.log, seen.progress) == (ABSENT, ABSENT)
    assert seen.matches == {STDERR: 0, STDOUT: ABSENT, ANY: ABSENT}
    assert len(seen.troubles) == 1


def test_the_idle_line_counts_while_it_is_the_last(logs: Logs) -> None:
    assert logs.watch().idle_line is False
    seen = logs.say("Checking for jobs", "No jobs found, sleeping", "", "   ")
    assert (seen.idle_line, seen.progress_after_idle) == (True, False)
    assert logs.heartbeats.look().idle_line is True
    seen = logs.say("Processing job 7")
    assert (seen.idle_line, seen.progress_after_idle) == (False, False)
    assert logs.say(batch(1)).progress_after_idle is True
    assert logs.say("No jobs found").progress_after_idle is False


def test_the_last_line_before_watching_may_be_the_idle_line(logs: Logs) -> None:
    logs.out.write_text("No jobs found, sleeping\n")
    seen = logs.watch()
    assert (seen.idle_line, seen.progress_after_idle) == (True, None)


def test_no_line_at_all_is_not_known_to_be_idle(logs: Logs) -> None:
    logs.out.write_text("")
    logs.err.write_text("")
    assert logs.watch().idle_line is None


def test_no_idle_line_configured_is_unknown(logs: Logs) -> None:
    logs.watch(Policy("*", progress=Progress(log=BATCH)))
    seen = logs.say("No jobs found", batch(2))
    assert (seen.idle_line, seen.progress_after_idle) == (None, None)


def test_of_two_logs_either_may_hold_the_last_line_of_a_look(logs: Logs) -> None:
    logs.watch()
    with logs.out.open("a") as file:
        file.write("No jobs found\n")
    assert logs.complain("some noise").idle_line is True
    assert logs.complain("some noise").idle_line is False


def test_nothing_learnt_of_a_process_survives_it(logs: Logs) -> None:
    logs.watch()
    logs.say(batch(5), "No jobs found")
    logs.complain(MARKER)
    with logs.err.open("a") as file:
        file.write(f"dying: {MARKER}\n")  # before the new process is first looked at: whose line it is cannot be told
    logs.heartbeats.restart()
    seen = logs.heartbeats.look()
    assert (seen.progress, seen.progress_count, seen.idle_line, seen.progress_after_idle) == (0, None, False, None)
    assert seen.matches == {STDERR: 0, STDOUT: 0, ANY: 0}
    assert logs.complain(MARKER).matches[STDERR] == 1
    assert logs.say(batch(5)).progress == 1


def test_an_old_idle_line_says_nothing_of_a_new_process(logs: Logs) -> None:
    logs.watch()
    logs.say("No jobs found")
    logs.heartbeats.restart()
    assert logs.heartbeats.look().idle_line is None
    assert logs.say("No jobs found").idle_line is True


def test_a_new_process_may_be_idle_before_it_is_first_looked_at(logs: Logs) -> None:
    logs.watch()
    logs.heartbeats.restart()
    assert logs.say("started", "No jobs found").idle_line is True


def test_a_reload_keeps_growth_progress_and_known_counts(logs: Logs) -> None:
    logs.watch()
    logs.say(batch(1))
    logs.complain(MARKER)
    with logs.out.open("a") as file:
        file.write(f"{batch(2)}\n")
    again = logs.watch(Policy("*", rules=(rule_with(STDERR, MatchKey("any", "new")),), progress=Progress(log=BATCH)))
    assert again.progress == 2
    assert again.matches == {STDERR: 1, MatchKey("any", "new"): 0}
    assert isinstance(again.log, int)
    assert again.log > len(MARKER)


def test_a_reload_lets_go_of_logs_that_are_no_longer_watched(logs: Logs, tmp_path: Path) -> None:
    logs.watch()
    other = tmp_path / "other"
    other.write_text("x\n")
    logs.watch(streams={str(other): "log"})
    assert logs.say("nobody looks") == logs.heartbeats.look()
    logs.out = other
    assert logs.say("yes").log == 4


def test_a_long_line_is_matched_by_its_first_4_kib(logs: Logs) -> None:
    logs.watch()
    assert logs.complain("x" * 4096 + MARKER).matches[STDERR] == 0
    assert logs.complain("x" * 4000 + MARKER).matches[STDERR] == 1


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-11-30 03:05:57 ",
        "2026-11-30T03:05:57.123456Z ",
        "2026-11-30 03:05:57,123 ",
        "2026/11/30 03:05:57+01:00 ",
        "[2026-11-30 03:05:57] ",
        "03:05:57.1 ",
        "[03:05:57] ",
        "Nov 30 03:05:57 ",
        "Mon Nov 30 03:05:57 ",
        "[30/Nov/2026:03:05:57 +0000] ",
        "I1130 03:05:57.123456 ",
        "INFO 11-30 03:05:57 ",
        "[INFO] 2026-11-30 03:05:57 ",
        "INFO:2026-11-30 03:05:57,5 ",
        "1796026500.123 ",
        "[ 1234.567] ",
        "",
    ],
)
def test_time_stamps_are_put_aside(stamp: str) -> None:
    assert without_stamp(f"{stamp}Batch 46: 0.13s/image") == "Batch 46: 0.13s/image"


@pytest.mark.parametrize("line", ["Batch 46 at 03:05:57", "12 images", "step 2026", "epoch: 3", "100%|### | 3/3 00:12"])
def test_what_is_no_leading_time_stamp_stays(line: str) -> None:
    assert without_stamp(line) == line


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), (" -3 ", -3), ("1,234", 1234), ("1_0", 10), ("1.5", None), ("", None), ("9" * 19, None), ("٣", None)],
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole_number(text) == number
