"""What is said of a store: never a password, a token or a key, wherever they are set and whoever says them."""

from __future__ import annotations

import logging
import traceback
from http.client import InvalidURL
from typing import TYPE_CHECKING, Final

import pytest
from botocore.exceptions import HTTPClientError
from caption_stores import StorePlace, asked_as, asked_here, store_place
from object_server import object_server

from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.json_log import JsonScreen
from examples.recipes.caption_qc.job.masking import masked
from examples.recipes.caption_qc.job.object_errors import store_errors
from examples.recipes.caption_qc.job.object_store import Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from object_server import ObjectServer

SECRET: Final = "Hush42Hush"  # noqa: S105 - made up
GONE: Final = "127.0.0.1:1"
IN_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with asked_here(object_server()):
        yield object_server()


@pytest.fixture
def here(server: ObjectServer, tmp_path: Path) -> StorePlace:
    """A queue that a run has been at, so that what fails later is written to ledger, reports and metrics."""
    here = store_place(server, tmp_path)
    here.fire()
    return here


def told(here: StorePlace, **environment: str) -> tuple[int, str]:
    """Do a run with other settings; return its code, and what it says to a person and to a program."""
    with asked_as(**environment):
        person = here.here(*here.arguments())
    with asked_as(**environment):
        program = here.here(*here.arguments("--json-logs"))
    assert (person.code, len(person.errors)) == (program.code, 1), person
    return person.code, "\n".join((person.out, *person.errors, program.out, *program.errors))


def holds_no_secret(here: StorePlace) -> bool:
    files = [path for path in here.state.rglob("*") if path.is_file()]
    assert {"ledger.sqlite", "dashboard.json", "metrics.prom"} <= {path.name for path in files}
    return not any(SECRET.encode() in path.read_bytes() for path in files)


SLIPS: Final = [
    pytest.param({"AWS_ENDPOINT_URL": f"http://user:{SECRET}@{GONE}"}, 69, id="password"),
    pytest.param(
        {"AWS_ENDPOINT_URL": f"http://user:x/{SECRET}@y@{GONE}"}, 78, id="password that ends a host"
    ),
    pytest.param({"AWS_ENDPOINT_URL": f"user:{SECRET}@{GONE}"}, 78, id="no scheme"),
    pytest.param({"AWS_ENDPOINT_URL": f"http://{GONE}/?token={SECRET}"}, 78, id="query"),
    pytest.param({"AWS_SESSION_TOKEN": f"{SECRET}\n"}, 77, id="token with a line end"),
    pytest.param({"AWS_ACCESS_KEY_ID": f"{SECRET}\n"}, 77, id="key with a line end"),
    pytest.param({"AWS_SECRET_ACCESS_KEY": f"{SECRET}\udcff"}, 77, id="secret that is not UTF-8"),
    pytest.param({"HTTP_PROXY": f"http://user:{SECRET}@{GONE}", "NO_PROXY": ""}, 69, id="proxy"),
]


@pytest.mark.parametrize(("settings", "code"), SLIPS)
def test_a_slip_in_the_environment_shows_no_secret(
    settings: dict[str, str], code: int, here: StorePlace
) -> None:
    """The line names what to look at, and what can't be a header is bad credentials, not a bad network."""
    found, said = told(here, **settings)

    assert found == code, said
    assert SECRET not in said
    assert "AWS_" in said
    assert holds_no_secret(here)


@pytest.mark.parametrize(
    ("config", "code", "wanted"),
    [
        (f"endpoint_url = http://user:a/{SECRET}@{GONE}", 78, "not a valid URI"),
        (f"endpoint_url = http://{GONE}/?token={SECRET}", 78, "not a valid URI"),
        (f"credential_process = sh -c 'echo {SECRET} >&2; exit 1'", 77, "custom-process gave none"),
        ("credential_process = /nonexistent/program", 77, "/nonexistent/program"),
    ],
)
def test_a_slip_in_a_file_shows_no_secret(
    config: str, code: int, wanted: str, here: StorePlace, tmp_path: Path
) -> None:
    """Nor does what a program says that was to give credentials; one that is not there is no object that is gone."""
    (tmp_path / "config").write_text(f"[profile night]\n{config}\n")
    settings = {"AWS_PROFILE": "night", "AWS_CONFIG_FILE": str(tmp_path / "config")}
    if config.startswith("endpoint"):
        (tmp_path / "keys").write_text("[night]\naws_access_key_id = a\naws_secret_access_key = b\n")
        settings["AWS_SHARED_CREDENTIALS_FILE"] = str(tmp_path / "keys")

    with pytest.MonkeyPatch.context() as unset:
        for name in (*IN_KEYS, *(["AWS_ENDPOINT_URL"] if config.startswith("endpoint") else [])):
            unset.delenv(name)
        found, said = told(here, **settings)

    assert found == code, said
    assert wanted in said
    assert SECRET not in said
    assert holds_no_secret(here)


def test_a_store_that_says_back_what_it_was_told_is_not_quoted(here: StorePlace, tmp_path: Path) -> None:
    """Keys of a file are known too, once requests are signed with them."""
    (tmp_path / "keys").write_text(f"[default]\naws_access_key_id = {SECRET}\naws_secret_access_key = b\n")
    here.server.rule("GET", here.server.bucket, f"403 {SECRET} Denied")

    with pytest.MonkeyPatch.context() as unset:
        for name in IN_KEYS:
            unset.delenv(name)
        found, said = told(here, AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "keys"))

    assert (found, "no permission for" in said) == (77, True), said
    assert SECRET not in said
    assert holds_no_secret(here)


@pytest.mark.usefixtures("server")
def test_no_traceback_shows_what_a_library_said() -> None:
    """Its error is not the cause of ours: a crash later, or a log, would quote it."""
    with asked_as(AWS_SESSION_TOKEN=f"{SECRET}\n"), pytest.raises(JobError) as raised:
        Bucket("captions").require()

    assert raised.value.code == Exit.NO_PERMISSION
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_what_no_library_foresaw_is_named_and_not_quoted() -> None:
    """It may quote a header, or an address that no pattern knows."""
    with (
        pytest.raises(JobError, match="the request failed with InvalidURL;") as raised,
        store_errors("s3://b"),
    ):
        raise HTTPClientError(error=InvalidURL(f"can't contain {SECRET}"))

    assert (raised.value.code, SECRET in str(raised.value)) == (Exit.UNREACHABLE, False)


@pytest.mark.parametrize(
    "address",
    [f"http://u:two {SECRET}@h", f"http://h/?a=b%2F{SECRET}&c='d {SECRET}", f"u:{SECRET} x@h:1"],
)
@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "https_proxy"])
def test_an_address_of_the_environment_is_masked_however_it_is_wrong(
    variable: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blanks and quotes end it for a pattern, and not for who knows it."""
    monkeypatch.setenv(variable, address)
    assert SECRET not in masked(f"not valid: {address!r}, nor is {address}")


def test_what_libraries_log_is_masked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With JSON lines their warnings are ours, with the tracebacks in them."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    screen = JsonScreen("run-1")
    try:
        log = logging.getLogger("botocore")
        log.warning("at http://u:p@host/?%s", SECRET, exc_info=ValueError(SECRET))
    finally:
        screen.close()

    said = capsys.readouterr()
    assert "at http://***@host/?***" in said.out + said.err
    assert SECRET not in said.out + said.err


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Read timeout on 'http://a:b@c/d?x=1' (2 s)", "Read timeout on 'http://***@c/d?***' (2 s)"),
        ("Authorization: AWS4-HMAC-SHA256 Credential=AKIAX/2, Signature=4", "Authorization=***"),
        ("it wants AWS4-HMAC-SHA256 Credential=A, Signature=4", "it wants AWS4-HMAC-SHA256 ***"),
        ("AccessDenied AKIA0123456789ABCDEF may not", "AccessDenied *** may not"),
        ("X-Amz-Security-Token=abc is over", "X-Amz-Security-Token=*** is over"),
        ("Please use AWS4-HMAC-SHA256.", "Please use AWS4-HMAC-SHA256."),
        (
            "SSL: CERTIFICATE_VERIFY_FAILED for https://h:9/b",
            "SSL: CERTIFICATE_VERIFY_FAILED for https://h:9/b",
        ),
        ("two\nlines", "two%0Alines"),
    ],
)
def test_what_proves_who_asks_is_masked_and_the_rest_is_told(said: str, shown: str) -> None:
    """Addresses keep their host and path, headers their name."""
    assert masked(said).startswith(shown)
    assert "Signature=4" not in masked(said)
    assert "AKIA" not in masked(said)
