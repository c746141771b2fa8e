"""Objects of a store that speaks S3: listed in pages, read and written whole, each by one request.

Endpoint, region and credentials are boto3's own (`AWS_ENDPOINT_URL`, `AWS_PROFILE`, ...). What a request may take is
ours: connecting, waiting and trying again end well within the time that a drain has, so that a store that is away
holds up no run. boto3 is imported at the first request of a process.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .assets import as_text
from .exits import Exit, JobError
from .object_errors import hide_credentials, store_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from botocore.response import StreamingBody
    from types_boto3_s3 import S3Client

SCHEME: Final = "s3://"
KEYS_A_PAGE: Final = 1000
# Seconds. With three tries and the pauses between them, at most 3 s, a request ends within 9 s where nothing takes
# the connection, within 18 s where something takes it and says nothing; a drain has 25.
CONNECT_SECONDS: Final = 2.0
READ_SECONDS: Final = 5.0
TRIES: Final = 3
SLOWEST_SECONDS: Final = 18.0
PIECE: Final = 1 << 16
INSTALL: Final = "python -m uv sync --group s3"
# No key sorts after it and still begins with what stands before it.
_LAST: Final = "\U0010ffff"
# As botocore has it, less what would be a step in a path.
_BUCKET_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
# What the run's threads may ask for at one time.
_CONNECTIONS: Final = 32


@dataclass(frozen=True, slots=True)
class Stored:
    """One object as the store describes it."""

    key: str
    """Relative to the bucket's prefix."""
    size: int
    modified: datetime
    """Whole seconds, as headers have it; some listings know more."""
    etag: str
    """Without its quotes."""


@dataclass(frozen=True)
class Bucket:
    """The objects of a bucket below a prefix; all keys are relative to that. It holds no connection.

    Each method raises what `object_errors` lists.
    """

    name: str
    prefix: str = ""
    """Empty, or ends with a slash."""

    @property
    def url(self) -> str:
        """Its address, which `bucket_of` reads; without a slash at its end where that changes nothing."""
        text = f"{SCHEME}{self.name}/{self.prefix}"
        short = text.removesuffix("/")
        return text if short.endswith("/") else short

    def url_of(self, key: str) -> str:
        """Return the address of an object, as messages show it."""
        return as_text(f"{SCHEME}{self.name}/{self.prefix}{key}".encode())

    def require(self) -> None:
        """Ask for one key, to see that the store answers and lets us list."""
        self._list(Prefix=self.prefix, MaxKeys=1)

    def pages(self, below: str = "", *, after: str = "", skip: Sequence[str] = ()) -> Iterator[list[Stored]]:
        """Yield the objects in the order of their keys, 1,000 at a time.

        Args:
            below: Only keys that begin so.
            after: Only keys that sort after this one.
            skip: No keys that begin so; where a page ends with such, the next begins after them all.
        """
        skip = tuple(skip)
        more = {"StartAfter": self.prefix + after} if after else {}
        while True:
            page, token = self._list(Prefix=self.prefix + below, MaxKeys=KEYS_A_PAGE, **more)
            yield [found for found in page if not found.key.startswith(skip)]
            if token is None:
                return
            more = {"ContinuationToken": token}
            for passed in skip:
                if page and page[-1].key.startswith(passed):
                    more = {"StartAfter": f"{self.prefix}{passed}{_LAST}"}

    @contextlib.contextmanager
    def open(self, key: str) -> Iterator[tuple[Stored, Iterator[bytes]]]:
        """Ask for an object: in the block, what the answer says of it, and its bytes as they are read."""
        with store_errors(self.url_of(key)):
            answer = client().get_object(Bucket=self.name, Key=self.prefix + key)
        with contextlib.closing(answer["Body"]) as body:
            with store_errors(self.url_of(key)):
                stored = _answered(key, answer)
            yield stored, iter(lambda: self._piece(body, key), b"")

    def get(self, key: str) -> tuple[bytes, Stored]:
        """Read an object whole."""
        with self.open(key) as (stored, pieces):
            return b"".join(pieces), stored

    def head(self, key: str) -> Stored | None:
        """Say what lies there; `None`: nothing."""
        try:
            with store_errors(self.url_of(key)):
                return _answered(key, client().head_object(Bucket=self.name, Key=self.prefix + key))
        except FileNotFoundError:
            return None

    def put_new(self, key: str, data: bytes, content_type: str) -> None:
        """Write an object where nothing is.

        A store may know no such request: it refuses it, or does it as any other.

        Raises:
            FileExistsError: Something is there; it may be this one, if its first answer was lost.
        """
        with store_errors(self.url_of(key)):
            client().put_object(
                Bucket=self.name, Key=self.prefix + key, Body=data, ContentType=content_type, IfNoneMatch="*"
            )

    def put(self, key: str, data: bytes, content_type: str, cache_control: str | None = None) -> Stored:
        """Write an object whole, and say what lies there now."""
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - it takes longer than all of this file

        more: dict[str, Any] = {} if cache_control is None else {"CacheControl": cache_control}
        with store_errors(self.url_of(key)):
            answer = client().put_object(
                Bucket=self.name, Key=self.prefix + key, Body=data, ContentType=content_type, **more
            )
            # Of a write, stores tell the tag and not the time; the answer's own date is that, within a second.
            date = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
            return Stored(key, len(data), date, _tag(answer["ETag"]))

    def delete(self, key: str) -> None:
        """Remove an object; nothing is said where none is there."""
        with store_errors(self.url_of(key)):
            client().delete_object(Bucket=self.name, Key=self.prefix + key)

    def _piece(self, body: StreamingBody, key: str) -> bytes:
        with store_errors(self.url_of(key)):
            return body.read(PIECE)

    def _list(self, **asked: Any) -> tuple[list[Stored], str | None]:
        """Return one page, and what to ask for the next by; `None`: it was the last."""
        with store_errors(self.url):
            answer: Any = client().list_objects_v2(Bucket=self.name, **asked)
            page = [self._listed(found) for found in answer.get("Contents", ())]
            # What is no store's answer has not even this.
            return page, answer["NextContinuationToken"] if answer["IsTruncated"] else None

    def _listed(self, found: Any) -> Stored:
        return _stored(found["Key"].removeprefix(self.prefix), found["Size"], found)


def _answered(key: str, answer: Any) -> Stored:
    return _stored(key, answer["ContentLength"], answer)


def _stored(key: str, size: int, found: Any) -> Stored:
    return Stored(key, size, found["LastModified"].replace(microsecond=0), _tag(found["ETag"]))


def bucket_of(text: str) -> Bucket:
    """Read the address of a bucket, or of a prefix in it, for a command that will ask it.

    Raises:
        JobError: with exit code 64: it is no such address, or boto3 is not installed.
    """
    found = bucket_named(text)
    if importlib.util.find_spec("boto3") is None:
        raise JobError(f"{as_text(text.encode())} needs boto3; install it with: {INSTALL}", Exit.USAGE)
    return found


def bucket_named(text: str) -> Bucket:
    """Read the address of a bucket, without a look at what is installed.

    Raises:
        JobError: with exit code 64.
    """
    name, _, prefix = text.removeprefix(SCHEME).partition("/")
    shown = as_text(text.encode("utf-8", "surrogateescape"))
    if not text.startswith(SCHEME) or not _BUCKET_NAME.fullmatch(name):
        raise JobError(
            f"'{shown}' names no bucket; write it like s3://bucket or s3://bucket/prefix", Exit.USAGE
        )
    if not _is_key(prefix):
        raise JobError(f"'{shown}' is not UTF-8, as all keys are; give another prefix", Exit.USAGE)
    return Bucket(name, prefix if prefix.endswith("/") or not prefix else f"{prefix}/")


def _is_key(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tag(text: str) -> str:
    return text.strip('"')


@functools.cache
def client() -> S3Client:
    """Make this process's client; a session of its own, since boto3's default one is shared by all of a program."""
    try:
        import boto3  # noqa: PLC0415 - a local run needs none of it, and it takes a fifth of a second
        from botocore.config import Config  # noqa: PLC0415
    except ImportError as error:  # Of a cluster's worker: the command itself has looked.
        raise JobError(
            f"a store needs boto3 ({error}); install it with: {INSTALL}", Exit.BAD_CONFIG
        ) from error
    with store_errors("the object store"):
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": TRIES, "mode": "standard"},
            max_pool_connections=_CONNECTIONS,
        )
        session = boto3.session.Session()
        made = session.client("s3", config=config)
        hide_credentials(session, made)
        return made
