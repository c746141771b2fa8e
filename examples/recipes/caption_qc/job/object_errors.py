"""What an object store's refusals become: errors of ours, each one line with what to do.

no answer, or 5xx and 429 after three tries  StoreUnreachableError, exit 69
no such bucket                               NoBucketError, exit 66 (73 where it is to be written to)
this is not permitted                        DeniedError, exit 77: of this key, or of all
credentials that are missing or no good      JobError, exit 77, and so for a clock that is wrong
a region, profile or endpoint that can't be  JobError, exit 78
no such key                                  FileNotFoundError
anything else                                JobError, exit 74
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

from .assets import printable
from .exits import Exit, JobError

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    except (JobError, FileNotFoundError):
        raise
    except Exception as error:
        told = _told(error, printable(what))
        if told is None:
            raise
        raise told from error


def _told(error: Exception, what: str) -> Exception | None:
    """Say what came of a request; `None` for what is no refusal of a store's."""
    # Here, because whoever raised these has imported it.
    from botocore import exceptions as of_boto  # noqa: PLC0415
    from botocore.parsers import ResponseParserError  # noqa: PLC0415

    match error:
        case of_boto.ClientError():
            return _answered(error.response, what)
        case (
            of_boto.HTTPClientError()
            | of_boto.ConnectionError()
            | of_boto.IncompleteReadError()
            | of_boto.FlexibleChecksumError()
            | OSError()
        ):
            return _unsent(what, str(error))
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
        case KeyError():
            return RefusedError(f"{what} answers without {error}; {_NO_STORE}", Exit.IO_ERROR)
        case of_boto.BotoCoreError() | ResponseParserError() | ValueError():
            way_out = "see AWS_ENDPOINT_URL, AWS_DEFAULT_REGION, AWS_PROFILE and the files that they name"
            return JobError(f"cannot ask {what}: {_shown(str(error))}; {way_out}", Exit.BAD_CONFIG)
    return None


def _unsent(what: str, why: str) -> JobError:
    if "Invalid header value" in why:  # And then the value, which is a secret.
        return _no_credentials(what, "they hold what no header can, such as the end of a line")
    return _unreachable(what, why)


def _reason_of(error: Any) -> str:
    """Say why there are no credentials, without what a program that was to give them has said: it may hold some."""
    provider = error.kwargs.get("provider")
    return str(error) if provider is None else f"{provider} gave none"


def _answered(answer: Any, what: str) -> Exception:
    code = str(answer.get("Error", {}).get("Code", ""))
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    said = printable(f"{code} {answer.get('Error', {}).get('Message', '')}".strip())
    if status == _NOT_FOUND and code != "NoSuchBucket":
        return FileNotFoundError(f"there is no {what}")
    if code == "RequestTimeTooSkewed":
        found = f"{what} takes the time of this machine for wrong: {said}"
        return JobError(f"{found}; set its clock (timedatectl says how it is kept)", Exit.NO_PERMISSION)
    if code in _BAD_CREDENTIALS:
        return _no_credentials(what, said)
    if status >= _SERVER or status in _TOO_MANY or code in _SLOW:
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
        way_out = "permit these credentials s3:ListBucket and s3:GetObject, and for reports s3:PutObject"
        return DeniedError(f"no permission for {what}: {said}; {way_out}", Exit.NO_PERMISSION)
    return RefusedError(f"the store refused {what}: {said}; {_NO_STORE}", Exit.IO_ERROR)


def too_slow(what: str, why: Exception) -> StoreUnreachableError:
    """Say that an answer began and did not end in a time in which any would."""
    return _unreachable(printable(what), str(why))


def _unreachable(what: str, why: str) -> StoreUnreachableError:
    way_out = "see the network and AWS_ENDPOINT_URL, then run again: nothing recorded is lost"
    return StoreUnreachableError(f"cannot reach {what}: {_shown(why)}; {way_out}", Exit.UNREACHABLE)


def _no_credentials(what: str, why: str) -> JobError:
    way_out = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role of this machine"
    return JobError(f"no good credentials for {what}: {_shown(why)}; {way_out}", Exit.NO_PERMISSION)


def _shown(why: str) -> str:
    """Write what was said in one line, without what stands in an endpoint's address for a password or a token."""
    return printable(_QUERY.sub("?***", _USER.sub("***@", why)))


_USER: Final = re.compile(r"[^\s\"'/@]+@")
_QUERY: Final = re.compile(r"\?[^\s\"']+")
_NO_STORE: Final = "see that this is a store which speaks S3, then run again: nothing recorded is lost"
_NOT_FOUND: Final = 404
_DENIED: Final = frozenset({401, 403, 405})
_TOO_MANY: Final = frozenset({408, 429})
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
