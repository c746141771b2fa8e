"""What an object store's refusals become: errors of ours, each one line with what to do.

no answer, or 5xx and 429 after three tries  StoreUnreachableError, exit 69
no such bucket                               NoBucketError, exit 66 (73 where it is to be written to)
this is not permitted                        DeniedError, exit 77: of this key, or of all
credentials that are missing or no good      JobError, exit 77, and so for a clock that is wrong
a region, profile or endpoint that can't be  JobError, exit 78
no such key                                  FileNotFoundError
something is there where nothing was to be   FileExistsError
anything else                                JobError, exit 74

Whatever others say of it, boto3, its libraries or the store, comes through `masked`, and none of their errors is the
cause of ours: a traceback would show it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from .assets import printable
from .exits import Exit, JobError
from .masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from boto3.session import Session
    from types_boto3_s3 import S3Client


class StoreUnreachableError(JobError):
    """The store does not answer, or answers that it can't for now: nobody's fault, and no object's."""


class DeniedError(JobError):
    """The credentials are good, and do not permit this."""


class RefusedError(JobError):
    """The store refused this, for a reason of its own."""


class NoBucketError(JobError):
    """There is no such bucket."""


@contextlib.contextmanager
def store_errors(what: str) -> Iterator[None]:
    """Raise ours for what boto3 raises in the block; `what` is the address that was asked."""
    try:
        yield
    except JobError:
        raise
    except Exception as error:
        told = _told(error, printable(what))
        if told is None:
            raise
        raise told from None


def hide_credentials(session: Session, client: S3Client) -> None:
    """Let nobody hear a session's keys or token from a store that says them back, wherever they came from."""

    def mask(parsed: Any, **_: Any) -> None:
        if found := parsed.get("Error"):
            # What a request was signed with is at hand; to ask for one of these might fetch it anew.
            known = [value for value in vars(session.get_credentials()).values() if isinstance(value, str)]
            found |= {name: masked(said, known) for name, said in found.items() if isinstance(said, str)}

    client.meta.events.register("after-call.s3", mask)


def _told(error: Exception, what: str) -> Exception | None:
    """Say what came of a request; `None` for what is no refusal of a store's."""
    # Here, because whoever raised these has imported it.
    from botocore import exceptions as of_boto  # noqa: PLC0415
    from botocore.parsers import ResponseParserError  # noqa: PLC0415

    match error:
        case of_boto.ClientError():
            return _answered(error.response, what)
        case of_boto.HTTPClientError():
            return _unsent(what, error)
        case of_boto.ConnectionError() | of_boto.IncompleteReadError() | of_boto.FlexibleChecksumError():
            return _unreachable(what, str(error))
        case KeyError():
            return RefusedError(f"{what} answers without {masked(str(error))}; {_NO_STORE}", Exit.IO_ERROR)
        case of_boto.BotoCoreError() | ResponseParserError() | ValueError() | OSError():
            return _unasked(error, what)
    return None


def _unasked(error: Exception, what: str) -> JobError:
    """Say why nothing could be asked: credentials, settings, or what this machine says."""
    from botocore import exceptions as of_boto  # noqa: PLC0415 - imported long since

    match error:
        case UnicodeEncodeError():
            return _no_header(what)
        case OSError(filename=str()):  # The program that gives credentials, or a file of theirs.
            return _no_credentials(what, f"{error.strerror}: {error.filename}")
        case OSError():
            return _unreachable(what, str(error))
        case (
            of_boto.NoCredentialsError()
            | of_boto.PartialCredentialsError()
            | of_boto.CredentialRetrievalError()
            | of_boto.TokenRetrievalError()
            | of_boto.NoAuthTokenError()
            | of_boto.SSOError()
            | of_boto.LoginError()
        ):
            return _no_credentials(what, _reason_of(error))
    way_out = "see AWS_ENDPOINT_URL, AWS_DEFAULT_REGION, AWS_PROFILE and the files that they name"
    return JobError(f"cannot ask {what}: {masked(str(error))}; {way_out}", Exit.BAD_CONFIG)


def _unsent(what: str, error: Any) -> JobError:
    """Say why nothing came of a request; what no library of boto3's foresaw is named, not quoted: it quotes headers."""
    from botocore.exceptions import HTTPClientError  # noqa: PLC0415 - imported long since

    cause = error.kwargs.get("error")
    if "Invalid header" in str(cause) or isinstance(cause, UnicodeEncodeError):
        return _no_header(what)
    if type(error) is not HTTPClientError or isinstance(cause, OSError):
        return _unreachable(what, str(error))
    return _unreachable(what, f"the request failed with {type(cause).__name__}")


def _no_header(what: str) -> JobError:
    found = "key or token holds what no header can, such as the end of a line; write it anew without that, or"
    return _no_credentials(what, found, " ")


def _reason_of(error: Any) -> str:
    """Say why there are no credentials, without what a program that was to give them has said: it may hold some."""
    if {"provider", "error_msg"} <= error.kwargs.keys():
        return f"{error.kwargs['provider']} gave none"
    return str(error)


def _answered(answer: Any, what: str) -> Exception:
    code = str(answer.get("Error", {}).get("Code", ""))
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    said = masked(f"{code} {answer.get('Error', {}).get('Message', '')}".strip())
    if status == _NOT_FOUND and code != "NoSuchBucket":
        return FileNotFoundError(f"there is no {what}")
    if code == "RequestTimeTooSkewed":
        found = f"{what} takes the time of this machine for wrong: {said}"
        return JobError(f"{found}; set its clock (timedatectl says how it is kept)", Exit.NO_PERMISSION)
    if code in _BAD_CREDENTIALS:
        return _no_credentials(what, said)
    if status == _CONDITION:
        return FileExistsError(f"there is {what}")
    if (status >= _SERVER and status != _NOT_KNOWN) or status in _TOO_MANY or code in _SLOW:
        return _unreachable(what, said)
    return _refused(code, status, what, said)


def _refused(code: str, status: int, what: str, said: str) -> JobError:
    if code == "NoSuchBucket":
        way_out = "give the name of one that is there, or make it"
        return NoBucketError(f"no bucket at {what}: {said}; {way_out}", Exit.NO_QUEUE)
    if status in _ELSEWHERE or code in _WRONG_REGION:
        way_out = "set AWS_DEFAULT_REGION to the bucket's region, or AWS_ENDPOINT_URL to its store"
        return JobError(f"{what} lies elsewhere: {said}; {way_out}", Exit.BAD_CONFIG)
    if status in _DENIED:
        permit = "s3:ListBucket and s3:GetObject, for reports s3:PutObject, for prune s3:DeleteObject"
        way_out = f"permit these credentials {permit}"
        return DeniedError(f"no permission for {what}: {said}; {way_out}", Exit.NO_PERMISSION)
    return RefusedError(f"the store refused {what}: {said}; {_NO_STORE}", Exit.IO_ERROR)


def too_slow(what: str, why: Exception) -> StoreUnreachableError:
    """Say that an answer began and did not end in a time in which any would."""
    return _unreachable(printable(what), str(why))


def _unreachable(what: str, why: str) -> StoreUnreachableError:
    way_out = "see the network and AWS_ENDPOINT_URL, then run again: nothing recorded is lost"
    return StoreUnreachableError(f"cannot reach {what}: {masked(why)}; {way_out}", Exit.UNREACHABLE)


def _no_credentials(what: str, why: str, then: str = "; ") -> JobError:
    way_out = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role of this machine"
    return JobError(f"no good credentials for {what}: {masked(why)}{then}{way_out}", Exit.NO_PERMISSION)


_NO_STORE: Final = "see that this is a store which speaks S3, then run again: nothing recorded is lost"
_NOT_FOUND: Final = 404
_DENIED: Final = frozenset({401, 403, 405})
_TOO_MANY: Final = frozenset({408, 429})
_CONDITION: Final = 412
_NOT_KNOWN: Final = 501
_SERVER: Final = 500
_ELSEWHERE: Final = frozenset({301, 307})
_WRONG_REGION: Final = frozenset(
    {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"}
)
_SLOW: Final = frozenset({"RequestTimeout", "RequestTimeoutException", "SlowDown", "ThrottlingException"})
_BAD_CREDENTIALS: Final = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken"}
    | {"SignatureDoesNotMatch", "TokenRefreshRequired", "UnrecognizedClientException"}
)
