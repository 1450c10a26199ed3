"""Secrets do not survive, in whatever way people write them; frames, numbers and words do."""

from __future__ import annotations

import json
import time
import tracemalloc

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from watchdog.ansi import ANSI
from watchdog.collect import redact
from watchdog.collect.redact import MASK, Redactor
from watchdog.collect.secretnames import known_values, strength

KNOWN = "Zq7-known+Secret/of_40=characters.0123xyz"
"""In no fragment below, and without any secret's shape: only being known can hide it."""

SECRET = "hunter2hunter2"

HIDDEN = [
    f"token={SECRET}",
    f"token={SECRET} user=bob",
    f"DB_PASS={SECRET}",
    f"export AWS_SECRET_ACCESS_KEY={SECRET}",
    f"PGPASSWORD={SECRET} psql",
    f"password: {SECRET}",
    f"  password: correct horse {SECRET}",
    f"api_key: '{SECRET}'",
    f'{{"access_token": "{SECRET}", "n": 1}}',
    f'{{\\"access_token\\": \\"{SECRET}\\", \\"n\\": 1}}',
    f"{{'secretKey': b'{SECRET}'}}",
    f"credentials = ('bob', x), secret=u\"{SECRET}\"",
    f"password: str = '{SECRET}'",
    f'password = """{SECRET}\n{SECRET}"""',
    f"password='a\\'{SECRET}'",
    f"password='{SECRET}",
    f"password: |\n    {SECRET}\n    {SECRET}\n",
    f"--password {SECRET} --user bob",
    f"--api-key={SECRET}",
    f"['worker', '--token', '{SECRET}', '--user', 'bob']",
    f"--token\x00{SECRET}\x00--user",
    f"Authorization: Bearer {SECRET}",
    f"authorization: Basic {SECRET}==",
    f"Authorization: AWS4-HMAC-SHA256 Credential=x, Signature={SECRET}",
    f"{{'Authorization': 'Token {SECRET}'}}",
    f"(b'authorization', b'Bearer {SECRET}')",
    f"Cookie: session={SECRET}; csrf={SECRET}",
    f"Set-Cookie: id={SECRET}; Path=/",
    f"X-Api-Key: {SECRET}",
    f"curl -H 'X-Auth-Token: {SECRET}'",
    f"https://bob:{SECRET}@example.org:8443/path",
    f"redis://:{SECRET}@localhost:6379/0",
    f"postgresql://bob:{SECRET}",
    f"https://{SECRET}{SECRET}@github.com/x/y",
    f"https://s3/x?X-Amz-Algorithm=A&X-Amz-Signature={SECRET}&X-Amz-Date=1",
    f"https://s3/x?sig={SECRET}",
    f"https://s3/x?a=1&Signature={SECRET}&Expires=17",
    f"https://api/x?token={SECRET}&n=1",
    f"<password>{SECRET}</password>",
    f"│ api_token │ {SECRET} │",
    f"│   token = '{SECRET}'   │",
    "\x1b[33mtoken\x1b[0m\x1b[1m=\x1b[0m\x1b[32m'hunter2\x1b[4mhunter2'\x1b[0m",
    "│ token = 'hunter2   │\n│ hunter2'            │",
    f"password => {SECRET}",
    f"if token == '{SECRET}':",
    "key AKIAHUNTER2HUNTER2XX found",
    "pushed with ghp_hunter2hunter2hunter2hunter2hunter2",
    "OpenAI sk-proj-hunter2hunter2hunter2",
    "slack xoxb-1234-hunter2hunter2",
    "jwt eyJhbGciOiJIUzI1NiJ9.eyJodW50ZXIyaHVudGVyMiI6MX0.hunter2hunter2",
    "https://hooks.slack.com/services/T0/B0/hunter2hunter2",
    "-----BEGIN RSA PRIVATE KEY-----\nhunter2hunter2\n+/=\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\nhunter2hunter2hunter2\\n-----END PRIVATE KEY-----\\n",
    "-----BEGIN PRIVATE KEY-----\nhunter2hunter2hunter2",
    "│ -----BEGIN PRIVATE KEY----- │\n│ hunter2hunter2hunter2 │",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_hides_a_secret_however_it_is_written(text: str) -> None:
    out = Redactor().text(text)
    assert "hunter2" not in out.lower()
    assert MASK in out


KEPT = [
    "KeyError: 'image_7'",
    "keyboard=us",
    "tokenize (tokenizer.py:12)",
    "    get_token (auth/token.py:12)",
    "in get_token:45",
    "secrets.py:88",
    'File "/srv/app/secret_store/password.py", line 12, in get_password',
    "max_tokens=512, prompt_tokens: 31",
    "key=5 batch=17",
    "token=None secret: null password=''",
    "TOKENIZERS_PARALLELISM=false",
    "token_type=bearer expires_in=3600",
    "aws_access_key_id_file=/etc/x",
    "PWD=/srv/app OLDPWD=/srv",
    "monkey=banana turkey: 3 author: bob authority: x",
    "http://localhost:8080/path tcp://0.0.0.0:2024 http://[::1]:80/",
    "2026-11-30 03:05:57 [info     ] Batch 46: 0.13s/image, Classification time: 0.10s",
    "RuntimeError: could not unlink the shared memory file /torch_101_2_3 : No such file or directory (2)",
    'Thread 101 (idle): "MainThread"',
    "    select (selectors.py:415)",
    "Basic authentication failed",
    "task-runner-abcdefghijkl1",
    "│ return token                                     │",
    "git@github.com:x/y.git bob@example.org",
    "the key of row 3 | the pass of column 2",
]


@pytest.mark.parametrize("text", KEPT)
def test_keeps_what_is_no_secret(text: str) -> None:
    redactor = Redactor([KNOWN])
    assert redactor.text(text) == text
    assert redactor.counts == {}


@pytest.mark.parametrize(
    "text",
    [
        f"got {KNOWN} back",
        f"got {KNOWN[:36]}",
        f"got {KNOWN[:36]}\nnext",
        f"│ value = '{KNOWN[:12]}'+29        │",
        f"got {KNOWN[:9]}…",
        f"got {KNOWN[:9]}... and more",
        f"got '{KNOWN[:10]}...{KNOWN[-10:]}'",
        f"{KNOWN[-10:]} is how the file begins",
        f"│ {KNOWN[:20]}   │\n│ {KNOWN[20:]}      │",
        f"{KNOWN[:7]}\x1b[1m{KNOWN[7:]}",
        f"json {json.dumps(KNOWN)}",
        "url Zq7-known%2BSecret%2Fof_40%3Dcharacters.0123xyz",
    ],
)
def test_hides_a_known_value_also_cut_short_wrapped_or_escaped(text: str) -> None:
    redactor = Redactor([KNOWN])
    out = redactor.text(text)
    assert "Zq7-known"[:8] not in out
    assert "0123xyz" not in out
    assert sum(redactor.counts.values()) >= 1


def test_keeps_lines_where_a_value_was_wrapped_over_them() -> None:
    assert Redactor([KNOWN]).text(f"a {KNOWN[:20]}  │\n│ {KNOWN[20:]} b\nc") == f"a {MASK}\n b\nc"


def test_a_yaml_block_ends_where_its_lines_do() -> None:
    text = "a:\n  password: |-\n    hunter2\n      hunter2\n    hunter2\n  user: bob\n"
    assert Redactor().text(text) == f"a:\n  password: |-\n    {MASK}\n  user: bob\n"


def test_counts_by_kind() -> None:
    redactor = Redactor([KNOWN])
    redactor.text(f"{KNOWN} {KNOWN[:20]}… token=abc https://u:p4ss@h/?sig=x ghp_0123456789")
    assert redactor.counts == {
        "known shape": 1,
        "known value": 1,
        "known value, cut short": 1,
        "named value": 1,
        "signed query": 1,
        "url credentials": 1,
    }


def test_values_of_json_are_hidden_by_their_key_and_stay_json() -> None:
    redactor = Redactor([KNOWN])
    found = redactor.value(
        {
            "password": SECRET,
            "pin_token": 12345,
            "key": 7,
            "note": f"x {KNOWN}",
            "rows": [{"api_key": {"a": 1}}, None, 1.5, True],
        }
    )
    assert found == {
        "password": MASK,
        "pin_token": MASK,
        "key": 7,
        "note": f"x {MASK}",
        "rows": [{"api_key": MASK}, None, 1.5, True],
    }
    assert redactor.value(found) == found


def test_known_values_come_from_secret_names_and_urls_only() -> None:
    environ = {
        "API_TOKEN": "abcdefgh-1",
        "DATABASE_URL": "postgres://bob:p%40ssword9@db/x",
        "HOME": "/home/somebody",
        "SSH_KEY": "/etc/ssh/key",
        "SHORT_SECRET": "abc",
        "USE_TOKEN": "disabled",
        "TOKENIZERS_PARALLELISM": "falsefalse",
        "BROKEN_URL": "http://[bad@x",
    }
    assert known_values(environ) == ("abcdefgh-1", "p%40ssword9", "p@ssword9")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("token", "strong"),
        ("authToken", "strong"),
        ("AUTHTOKEN", "strong"),
        ("X-Api-Key", "strong"),
        ("SECRET_KEY_BASE", "strong"),
        ("key", "weak"),
        ("tokenizer", "no"),
        ("tokens", "no"),
        ("KeyError", "no"),
        ("PWD", "no"),
        ("MYSQL_PWD", "strong"),
        ("key_id", "no"),
        ("secret_name", "no"),
        ("passed", "no"),
        ("", "no"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert strength(name) == expected


FRAGMENTS = st.sampled_from(
    [
        *("token", "password", "key", "Authorization", "Cookie", "api_key", "--secret", "KeyError", "pass", "sig"),
        *(
            "=",
            ":",
            ": ",
            " = ",
            "=>",
            ",",
            ", ",
            " ",
            "\n",
            "\r",
            "'",
            '"',
            '\\"',
            "\\",
            "'''",
            "`",
            "<",
            ">",
            "|",
            " │ ",
            "…",
            "...",
        ),
        *(
            "abc",
            "hunter2",
            "12345",
            "None",
            "://",
            "@",
            "?",
            "&",
            "Bearer ",
            "Basic ",
            "str",
            "[",
            "]",
            "(",
            ")",
            "{",
            "}",
            "-",
            "--",
        ),
        *(
            "\x1b[31m",
            "\x1b[0m",
            "\x1b",
            "\x9b",
            "\x1b]0;t\x07",
            "ghp_",
            "sk-",
            "eyJ",
            "AKIA",
            "0123456789abcdef",
            MASK,
            "*",
        ),
        *("-----BEGIN RSA KEY-----", "-----END RSA KEY-----", KNOWN, KNOWN[:12], KNOWN[-12:]),
    ]
)
TEXTS = st.one_of(st.lists(FRAGMENTS, max_size=25).map("".join), st.text(max_size=60))
VISIBLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40)
SECRETS = st.one_of(VISIBLE, st.text(min_size=8, max_size=40).filter(lambda s: len("".join(s.split())) >= 8))


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("token='")
@example("\x1b[\x1b[0m0m")
def test_redacting_again_changes_nothing(text: str) -> None:
    once = Redactor([KNOWN]).text(text)
    assert Redactor([KNOWN]).text(once) == once


@settings(max_examples=400, deadline=None)
@given(SECRETS, TEXTS, TEXTS)
def test_no_known_secret_survives(secret: str, before: str, after: str) -> None:
    bare = ANSI.sub("", secret)
    assume(len("".join(c for c in bare if not c.isspace() and not "\u2500" <= c <= "\u257f")) >= 8)
    assume(secret not in MASK)
    out = Redactor([secret]).text(before + secret + after)
    assert secret not in out
    assert bare not in out


@settings(max_examples=200, deadline=None)
@given(VISIBLE, st.data())
def test_no_known_secret_survives_being_cut_short(secret: str, data: st.DataObject) -> None:
    length = data.draw(st.integers(8, len(secret)))
    part = secret[:length]
    assume(part not in MASK)
    ending = data.draw(st.sampled_from(["", "\n", "…", "...", "'", "   │\n", "'+16 │"]))
    assert part not in Redactor([secret]).text(f"see: {part}{ending}")


@settings(max_examples=200, deadline=None)
@given(
    VISIBLE.filter(lambda s: "*" not in s),
    st.integers(1, 39),
    st.sampled_from(["\x1b[0m", " │\n│ ", "\n", "\x1b[1;31m"]),
)
def test_no_known_secret_survives_what_sits_inside_it(secret: str, at: int, inside: str) -> None:
    cut = at % len(secret)
    out = Redactor([secret]).text(f"a {secret[:cut]}{inside}{secret[cut:]} b")
    assert secret not in "".join(c for c in out if c not in " │\n")


FILLER = "    _try_get_data (torch/utils/data/dataloader.py:1284)\n"


def in_blocks(monkeypatch: pytest.MonkeyPatch, text: str, size: int = 256) -> tuple[str, dict[str, int]]:
    """Redacted in small blocks; made sure that it was, and that in one piece it is the same."""
    whole, pieces = Redactor([KNOWN]), Redactor([KNOWN])
    expected = whole.text(text)
    with monkeypatch.context() as patched:
        patched.setattr(redact, "BLOCK", size)
        patched.setattr(redact, "CONTEXT", 1024)
        pieces = Redactor([KNOWN])
        assert len(list(pieces._blocks(text))) > 2
        out = pieces.text(text)
    assert (out, pieces.counts) == (expected, whole.counts)
    return out, pieces.counts


WRAPPED = [
    f"│ {KNOWN[:20]}   │\n│ {KNOWN[20:]}      │",
    f"{KNOWN[:4]}\n{KNOWN[4:9]}\n{KNOWN[9:21]}\n{KNOWN[21:30]}\n{KNOWN[30:]}",
    f"got {KNOWN[:36]}\nnext",
]


@pytest.mark.parametrize("secret", [*HIDDEN, *WRAPPED])
def test_a_secret_at_the_end_of_a_block_is_hidden_as_anywhere(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for shift in range(0, len(secret) + 60, 11):
        text = FILLER * 3 + "x" * (256 - len(FILLER) * 3 - shift % 256) + "\n" + f"{secret}\n" + FILLER * 20
        out, counts = in_blocks(monkeypatch, text)
        assert "hunter2" not in out.lower() and KNOWN[:8] not in out and KNOWN[-8:] not in out
        assert counts


@pytest.mark.parametrize(
    "secret",
    [
        "-----BEGIN RSA PRIVATE KEY-----\n" + "hunter2hunter2hunter2\n" * 300 + "-----END RSA PRIVATE KEY-----\n",
        "password: |\n" + "  hunter2hunter2\n" * 300,
    ],
)
def test_a_secret_of_more_lines_than_a_block_stays_whole(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = in_blocks(monkeypatch, FILLER * 50 + secret + FILLER * 50)
    assert "hunter2" not in out


def test_a_long_known_value_that_is_wrapped_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "".join(f"{n:04}-" for n in range(700))
    monkeypatch.setattr(redact, "BLOCK", 500)
    monkeypatch.setattr(redact, "CONTEXT", 100)
    wrapped = "".join(f"│ {long[at : at + 70]} │\n" for at in range(0, len(long), 70))
    redactor = Redactor([long])
    out = redactor.text(FILLER * 20 + wrapped + FILLER * 20)
    assert redactor.counts == {"known value": 1}
    assert "0123-" not in out and "0600-" not in out


def test_long_text_leaves_room_for_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """6 MB in one piece let no other thread run for 1.3 s, and took 240 MB: a number for each character."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    text = FILLER * ((2 << 20) // len(FILLER))
    tracemalloc.start()
    try:
        assert Redactor([KNOWN]).text(text) == text
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert pauses == [0.0] * len(pauses) and len(pauses) >= len(text) // (2 * redact.BLOCK)
    assert peak < 5 * len(text)


def test_text_without_line_ends_is_one_block() -> None:
    redactor = Redactor([KNOWN])
    assert redactor.text("x " * redact.BLOCK + KNOWN) == "x " * redact.BLOCK + MASK


HOSTILE = [
    "token",
    "password='",
    "password=\\'",
    'token="""',
    "'token',",
    "://a:b@",
    "-----BEGIN A-----AAAA ",
    "\x1b[",
    "token │ ",
    "key: ",
    "A",
    "a-",
    "eyJ",
    "password: |\n  a\n",
    "token = '\n",
    "-----BEGIN A-----\n",
    "password: |\n  " + "a\n  " * 1000,
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_takes_linear_time_on_hostile_text(piece: str) -> None:
    """256 KiB take 0.1-0.5 s; anything quadratic took 12 s and more. The bound leaves a slow host ten times as long."""
    text = piece * ((256 << 10) // len(piece))
    redactor = Redactor([KNOWN, "a" * 40 + "b"])
    began = time.process_time()
    redactor.text(text)
    assert time.process_time() - began < 5.0
