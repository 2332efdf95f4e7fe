"""Keys of S3: where they come from, what workers get, and what a first request shows."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from ssbench.core.errors import AuthError, RejectedError, UsageError
from ssbench.core.settings import StorageSettings
from ssbench.storage.options import StoreOptions, option_values
from ssbench.storage.registry import open_provider
from ssbench.storage.s3 import login as s3login
from ssbench.storage.s3.by_botocore import Findings, answer
from ssbench.storage.s3.client import AwsKeys
from ssbench.storage.s3.login import S3Login, read_access
from ssbench.storage.s3.options import OPTIONS
from tests.fakes.loopback_http import Answer, LoopbackServer

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

SECRET = "Zq1-secret-of-the-test"
ENVIRON = {"AWS_ACCESS_KEY_ID": "AKENV", "AWS_SECRET_ACCESS_KEY": SECRET, "HOME": "/nonexistent"}


LISTING = Answer(200, {"x-amz-bucket-region": "us-east-1"}, b"<ListBucketResult/>")


def refused(status: int, code: str, more: str = "", **headers: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>m</Message>{more}</Error>"
    return Answer(status, {n.replace("_", "-"): v for n, v in headers.items()}, body.encode())


BUCKETS = Answer(200, {}, b"<ListAllMyBucketsResult><Buckets></Buckets></ListAllMyBucketsResult>")
OTHER_REGION = refused(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>")
NO_BUCKET = refused(404, "NoSuchBucket")


def options(url: str = "", environ: dict[str, str] = ENVIRON, **given: Any) -> StoreOptions:
    named = {f"s3_{name}": value for name, value in given.items()}
    if url:
        named["s3_endpoints"] = [url]
    return StoreOptions(
        "s3", named, environ, StorageSettings(connect_timeout_s=2.0, network_timeout_s=2.0)
    )


@cache
def _readers() -> dict[str, Callable[..., Any]]:
    from botocore.loaders import JSONFileLoader, Loader

    read = cache(partial(JSONFileLoader.load_file, JSONFileLoader()))
    list_services = Loader.list_available_services

    @cache
    def listed(paths: tuple[str, ...], kind: str) -> list[str]:
        return list_services(Loader(list(paths), include_default_search_paths=False), kind)

    return {
        "JSONFileLoader.load_file": lambda _loader, path: read(path),
        "Loader.list_available_services": lambda loader, type_name: listed(
            tuple(loader.search_paths), type_name
        ),
    }


def read_descriptions_once(patch: pytest.MonkeyPatch) -> None:
    """For each client, botocore reads megabytes of JSON that describe its services, and lists the
    hundreds of folders that these are in."""
    for name, reader in _readers().items():
        patch.setattr(f"botocore.loaders.{name}", reader)


def ask_here(patch: pytest.MonkeyPatch) -> None:
    """Call in this process what would be called in a child, which takes half a second to start."""

    def call(place: str, argument: str, environ: Mapping[str, str], *limits: float) -> bytes:
        with pytest.MonkeyPatch.context() as other:
            for name in [*filter(re.compile("AWS_").match, os.environ), "HOME"]:
                other.delenv(name, raising=False)
            for name, value in environ.items():
                other.setenv(name, value)
            return answer(argument)

    patch.setattr(s3login, "call_confined", call)
    read_descriptions_once(patch)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_here(monkeypatch)


def read_keys(opened: StoreOptions) -> AwsKeys | None:
    return read_access(opened, option_values(OPTIONS, opened))[1]


def profiles_read(data: bytes) -> None:
    """With botocore and without it; nothing is run, or asked for, on the way."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        ask_here(patch)
        path = Path(folder) / "aws"
        path.write_bytes(data)
        opened = options(
            environ={
                "AWS_CONFIG_FILE": str(path), "AWS_SHARED_CREDENTIALS_FILE": str(path),
                "AWS_PROFILE": "p",
            }
        )  # fmt: skip
        given = {"s3_anonymous": True}
        assert type(read_access(opened, given)[0]) is Findings
        patch.setitem(sys.modules, "botocore", None)
        assert type(read_access(opened, given)[0]) is Findings


PROFILES = [
    b"[profile p]\nregion = eu-west-1\nendpoint_url = http://h:9\nca_bundle = ~/ca\n",
    b"# own\n[p]\naws_access_key_id = A\naws_secret_access_key = a\n[profile p]\nregion = x\n",
]


# --- Where keys come from


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = AKDEF\naws_secret_access_key = defsecret\n"
        "[other]\naws_access_key_id = AKOTH\naws_secret_access_key = othsecret\n"
        "aws_session_token = tok/en==\n"
    )
    (tmp_path / ".aws/config").write_text(
        "[default]\nregion = eu-north-1\ncli_pager =\noutput = json\n"
        "[profile other]\nregion = ap-south-1\nendpoint_url = http://127.0.0.1:9000\n"
        "[profile role]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = default\n"
        "[both]\naws_access_key_id = AKBOTH\naws_secret_access_key = s\n"
    )
    return tmp_path


DEFAULT, OTHER = AwsKeys("AKDEF", "defsecret", ""), AwsKeys("AKOTH", "othsecret", "tok/en==")
IN_ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "e"}


@pytest.mark.parametrize(("environ", "given", "keys"), [
    ({}, {}, DEFAULT),
    ({"AWS_PROFILE": "other"}, {}, OTHER),
    ({"AWS_DEFAULT_PROFILE": "other"}, {}, OTHER),
    ({"AWS_DEFAULT_PROFILE": "other", "AWS_PROFILE": "default"}, {}, OTHER),
    ({}, {"profile": "other"}, OTHER),
    ({"AWS_CONFIG_FILE": "/dev/null"}, {"profile": "other"}, OTHER),
    ({"AWS_SHARED_CREDENTIALS_FILE": "{home}/.aws/config"}, {"profile": "both"},
     AwsKeys("AKBOTH", "s", "")),
    ({"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/config"}, {"profile": "both"},
     AwsKeys("AKBOTH", "s", "")),
    (IN_ENVIRONMENT, {}, AwsKeys("E", "e", "")),
    ({**IN_ENVIRONMENT, "AWS_SESSION_TOKEN": "t"}, {}, AwsKeys("E", "e", "t")),
    # A profile that is named on the command line goes before the environment.
    (IN_ENVIRONMENT, {"profile": "other"}, OTHER),
    (IN_ENVIRONMENT, {"access_key": "C", "secret_key": "c"}, AwsKeys("C", "c", "")),
    ({}, {"profile": "other", "access_key": "C", "secret_key": "c"}, AwsKeys("C", "c", "")),
    ({}, {"anonymous": True}, None),
])  # fmt: skip
@pytest.mark.parametrize("has_botocore", [True, False])
def test_sources_have_the_order_of_the_aws_command_line(
    home: Path,
    environ: dict[str, str],
    given: dict[str, Any],
    keys: AwsKeys | None,
    has_botocore: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not has_botocore:
        monkeypatch.setitem(sys.modules, "botocore", None)
    named = {name: value.format(home=home) for name, value in environ.items()}
    opened = options(environ={"HOME": str(home), **named}, **given)
    assert read_keys(opened) == keys


PLAIN = "aws_access_key_id = AK\naws_secret_access_key = sk\n"


@pytest.mark.parametrize("profile", [
    "",
    "region = eu-north-1\n",
    "endpoint_url = URL\n",
    "endpoint_url = URL\nregion = eu-north-1\naws_session_token = tok\n",
    "services = mine\n[services mine]\ns3 =\n  endpoint_url = URL\niam =\n  endpoint_url = X\n",
    "endpoint_url = http://x\nservices = mine\n[services mine]\ns3 =\n  endpoint_url = URL\n",
    "endpoint_url = URL\nservices = mine\n[services mine]\ndynamodb =\n  endpoint_url = http://x\n",
    "endpoint_url = URL\nignore_configured_endpoint_urls = true\n",
    "endpoint_url = URL\ns3 =\n  addressing_style = path\n",
    "endpoint_url = URL\ns3 =\n  addressing_style = virtual\n",
    "endpoint_url = ADDRESS\ns3 =\n  addressing_style = virtual\n",
    "endpoint_url = URL\ns3 =\n  addressing_style = auto\n  max_concurrent_requests = 20\n",
    "region = eu-north-1\ns3 =\n  use_dualstack_endpoint = true\n",
    "region = us-gov-west-1\nuse_fips_endpoint = true\n",
    "region = cn-north-1\n",
    "region = us-east-1\ns3_us_east_1_regional_endpoint = regional\n",
])  # fmt: skip
def test_a_profile_means_what_botocore_makes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    """The first request goes to the same place, with the same keys, for the same region."""
    with LoopbackServer(Answer(200, {}, b"<ListBucketResult/>")) as store:
        url = store.url
        if "ADDRESS" not in profile:
            url = url.replace("127.0.0.1", "localhost")  # botocore puts no bucket before an address
        path = tmp_path / "config"
        path.write_text(re.sub("URL|ADDRESS", url, f"[default]\n{PLAIN}{profile}"))
        environ = {"AWS_CONFIG_FILE": str(path), "HOME": str(tmp_path)}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        theirs = request_of_botocore()
        provider = S3Login(options(environ=environ, bucket="bkt"))
        if str(store.port) not in theirs.url:  # Amazon's: by the endpoint alone
            assert provider.where == theirs.url.replace("://bkt.", "://").partition("/?")[0]
            return
        access = provider.log_in()
        ours = store.seen[0]
    scope = theirs.headers["Authorization"].decode().split("Credential=")[1].split("/")
    assert provider.where == url
    assert f"http://{ours.headers['Host']}{ours.path}".startswith(theirs.url.partition("?")[0])
    payload = access.credentials.payload
    assert (payload["access_key"], access.settings["region"]) == (scope[0], scope[2])
    assert payload["token"] == theirs.headers.get("X-Amz-Security-Token", b"").decode()


def request_of_botocore() -> AWSPreparedRequest:
    """The request of a listing of the bucket bkt, which is not sent."""
    from botocore.awsrequest import AWSResponse  # loads slowly
    from botocore.session import Session

    seen: list[AWSPreparedRequest] = []

    def instead(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        seen.append(request)
        return AWSResponse(request.url, 200, {}, BytesIO(b"<ListBucketResult/>"))

    client = Session().create_client("s3")
    client.meta.events.register("before-send.s3.ListObjectsV2", instead)
    with suppress(Exception):
        client.list_objects_v2(Bucket="bkt")
    return seen[0]


def test_a_program_that_gives_keys_is_run(tmp_path: Path) -> None:
    keys = '{"Version": 1, "AccessKeyId": "AKP", "SecretAccessKey": "sp", "SessionToken": "t"}'
    (tmp_path / "config").write_text(
        f"[profile mine]\ncredential_process = echo '{keys}'\n"
        "[profile broken]\ncredential_process = sh -c 'echo s3cret >&2; exit 1'\n"
    )
    environ = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "HOME": str(tmp_path)}
    opened = options(environ=environ, profile="mine")
    assert read_keys(opened) == AwsKeys("AKP", "sp", "t")
    with pytest.raises(UsageError, match="profile broken: credential_process failed") as caught:
        S3Login(options(environ=environ, profile="broken"))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(("profile", "says"), [
    ("services = mine\n", "has services, which needs botocore: in ssbench's checkout, pip install"),
    ("s3 =\n  addressing_style = virtual\n", "has s3, which needs botocore"),
    ("endpoint_url = http://h\nuse_fips_endpoint = true\n", "has use_fips_endpoint, which needs"),
])  # fmt: skip
def test_without_botocore_what_is_not_understood_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str, says: str
) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    (tmp_path / "config").write_text(f"[default]\n{PLAIN}{profile}")
    with pytest.raises(UsageError, match=says):
        S3Login(options("http://h", {"AWS_CONFIG_FILE": str(tmp_path / "config")}))


def test_what_botocore_would_use_and_ssbench_can_not_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(f"[default]\n{PLAIN}s3 =\n  use_accelerate_endpoint = true\n")
    with pytest.raises(UsageError, match="default: ssbench does not support use_accelerate"):
        S3Login(options(environ={"AWS_CONFIG_FILE": str(path), "HOME": str(tmp_path)}))


@pytest.mark.parametrize("place", ["environment", "profile"])
def test_an_endpoint_that_botocore_would_ignore_is_refused(tmp_path: Path, place: str) -> None:
    """It sends the load to Amazon there."""
    path, ignore = tmp_path / "config", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
    path.write_text(f"[default]\n{PLAIN}ignore_configured_endpoint_urls = {place == 'profile'}\n")
    environ = {"AWS_CONFIG_FILE": str(path), "AWS_ENDPOINT_URL": "http://h"}
    if place == "environment":
        environ[ignore] = "true"
    with pytest.raises(UsageError, match="ignore_configured_endpoint_urls"):
        S3Login(options(environ=environ))
    assert S3Login(options("http://given", environ)).where == "http://given"


@pytest.mark.parametrize("has_botocore", [True, False])
def test_variables_alone_choose_the_endpoint_of_botocore(
    monkeypatch: pytest.MonkeyPatch, has_botocore: bool, tmp_path: Path
) -> None:
    environ = {"AWS_USE_DUALSTACK_ENDPOINT": "true", "HOME": str(tmp_path), **IN_ENVIRONMENT}
    if has_botocore:
        where = S3Login(options(environ=environ)).where
        assert where == "https://s3.dualstack.us-east-1.amazonaws.com"
        return
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(UsageError, match="AWS_USE_DUALSTACK_ENDPOINT needs botocore"):
        S3Login(options(environ=environ))


def test_the_store_of_a_profile_is_looked_up_once_for_all_identities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = tmp_path / "config", []
    ask = s3login.call_confined
    monkeypatch.setattr(s3login, "call_confined", lambda *given: (asked.append(1), ask(*given))[1])
    for region in ("eu-north-1", "eu-central-1"):
        path.write_text(f"[default]\nregion = {region}\n")
        for key in ("A", "B"):
            environ = {"AWS_CONFIG_FILE": str(path)}
            provider = S3Login(options(environ=environ, access_key=key, secret_key="s"))
            assert provider.where == f"https://s3.{region}.amazonaws.com"
    assert len(asked) == 2


@pytest.mark.parametrize("body", [
    "[]", '"x"', "[" * 9999, "nothing", "{}",
    '{"AccessKeyId": "A", "SecretAccessKey": "s", "Token": "t", "Expiration": 99999999999999999}',
    '{"AccessKeyId": "A", "SecretAccessKey": "\\ud800", "Token": "t", "Expiration": "2099-01-01"}',
    '{"AccessKeyId": 5, "SecretAccessKey": ["s"], "Token": {}, "Expiration": "2099-01-01"}',
])  # fmt: skip
def test_a_service_that_answers_with_no_keys_is_an_error_of_one_line(
    tmp_path: Path, body: str
) -> None:
    with LoopbackServer(Answer(200, {}, body.encode())) as server:
        environ = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/keys"}
        with pytest.raises(UsageError, match=r"^(profile bare|credentials for S3): [^\n]+$"):
            keys_of(tmp_path, "", environ)


def test_a_service_that_repeats_a_token_does_not_get_it_shown(tmp_path: Path) -> None:
    """STS gets the token of a web identity, and a container's service that of its variable."""
    (tmp_path / "token").write_text(SECRET)
    role = f"role_arn = arn:aws:iam::1:role/x\nweb_identity_token_file = {tmp_path}/token\n"
    said = f"<E><Error><Code>Denied\x9b</Code><Message>{SECRET}</Message></Error></E>".encode()
    with LoopbackServer(Answer(400, {}, said)) as server:
        environ = {"AWS_ENDPOINT_URL_STS": server.url}
        says = r"^profile bare: AssumeRoleWithWebIdentity was refused \(Denied[^\x9b]*\): aws sts"
        with pytest.raises(UsageError, match=says) as caught:
            keys_of(tmp_path, role, environ)
        assert SECRET not in str(caught.value)
        environ = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/keys",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": SECRET,
        }
        says = r"^profile bare: what gives its keys \(container-role\) failed, or gave none"
        with pytest.raises(UsageError, match=says) as caught:
            keys_of(tmp_path, "", environ)
        assert SECRET not in str(caught.value)


def keys_of(folder: Path, profile: str, environ: dict[str, str]) -> AwsKeys | None:
    """The keys of a profile that has none itself."""
    (folder / "config").write_text(f"[profile bare]\nregion = x\n{profile}")
    environ = {"AWS_CONFIG_FILE": str(folder / "config"), **environ}
    return read_keys(options(environ=environ, profile="bare"))


@pytest.mark.parametrize(("environ", "given", "says"), [
    ({}, {}, "no credentials for S3"),
    ({"AWS_ACCESS_KEY_ID": "A"}, {}, "the secret access key is missing"),
    ({"AWS_SECRET_ACCESS_KEY": SECRET}, {}, "the access key ID is missing"),
    ({"AWS_PROFILE": "nobody"}, {}, "profile nobody is in neither"),
])  # fmt: skip
def test_missing_options_are_named(
    environ: dict[str, str], given: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        open_provider(options("http://h", {"HOME": "/nonexistent", **environ}, **given))
    assert SECRET not in str(caught.value)


def test_a_profile_of_a_role_says_how_to_export_keys(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(UsageError, match=r"role_arn and no keys.*export-credentials"):
        open_provider(options("http://h", {"HOME": str(home)}, profile="role"))


def test_a_damaged_file_is_named_and_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"aws_secret_access_key = {SECRET}\n")
    with pytest.raises(UsageError, match="not a file of AWS profiles") as caught:
        open_provider(options("http://h", {"AWS_SHARED_CREDENTIALS_FILE": str(file)}))
    assert SECRET not in str(caught.value)


def test_a_file_that_can_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "none"
    with pytest.raises(UsageError, match=f"AWS_CONFIG_FILE names {missing}, which does not"):
        open_provider(options("http://h", {"AWS_CONFIG_FILE": str(missing)}))
    for _ in range(2):
        with pytest.raises(UsageError, match=f"{tmp_path}: has to be a regular file"):
            open_provider(options("http://h", {"AWS_CONFIG_FILE": str(tmp_path)}))
        monkeypatch.setitem(sys.modules, "botocore", None)


# --- The first request


def test_workers_get_the_key_of_a_day_and_not_the_secret() -> None:
    with LoopbackServer(LISTING) as store:
        provider = S3Login(options(store.url, bucket="b", style="virtual"))
        access = provider.log_in()
    payload = access.credentials.payload
    assert (payload["access_key"], payload["region"]) == ("AKENV", "us-east-1")
    assert {len(key) for key in payload["days"].values()} == {32}
    assert access.credentials.expires_at is not None
    assert 0 < access.credentials.expires_at - time.time() < 86_400 + 900
    assert SECRET not in f"{access!r}{provider!r}{payload!r}"
    assert access.settings["urls"] == (store.url,)
    assert (access.settings["bucket"], access.settings["style"]) == ("b", "virtual")
    asked = store.seen[0]
    assert asked.path == "/?list-type=2&max-keys=1"
    assert asked.headers["Host"] == f"b.{store.url.removeprefix('http://')}"


@pytest.mark.parametrize(("answer", "says"), [
    (refused(403, "SignatureDoesNotMatch"), "SignatureDoesNotMatch: m .is the secret key right"),
    (refused(403, "InvalidAccessKeyId"), "another store's access key"),
    (refused(400, "ExpiredToken"), "get new keys and a session token"),
    (refused(403, "RequestTimeTooSkewed", Date="Fri, 24 May 2013 00:00:00 GMT"),
     "this host's clock .* set it"),
    (refused(301, "PermanentRedirect", "<Endpoint>b.s3.example</Endpoint>"),
     "served at b.s3.example: give that with --s3-endpoint"),
])  # fmt: skip
def test_rejected_keys_end_the_login(answer: Answer, says: str) -> None:
    with LoopbackServer(answer) as store, pytest.raises(AuthError, match=says) as caught:
        S3Login(options(store.url)).log_in()
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_token_that_the_store_repeats_is_not_shown() -> None:
    token = "session/token==" * 9
    said = refused(400, "ExpiredToken", f"<Message>{token}, Signature=0123abcd</Message>")
    said = said._replace(body=said.body.replace(b"<Message>m</Message>", b""))
    environ = {**ENVIRON, "AWS_SESSION_TOKEN": token}
    with (
        LoopbackServer(said) as store,
        pytest.raises(AuthError, match=r"ExpiredToken: \*\*\*") as caught,
    ):
        S3Login(options(store.url, environ)).log_in()
    assert "session/" not in str(caught.value)
    assert "0123abcd" not in str(caught.value)


def test_a_region_that_repeats_a_secret_is_not_used() -> None:
    token = "session-token-1"
    named = LISTING._replace(headers={"x-amz-bucket-region": token})
    with LoopbackServer(named) as store:
        provider = S3Login(options(store.url, {**ENVIRON, "AWS_SESSION_TOKEN": token}, bucket="b"))
        access = provider.log_in()
    assert (access.credentials.payload["region"], access.settings["region"]) == ("us-east-1",) * 2


def test_a_missing_bucket_is_a_mistake_of_the_user() -> None:
    with (
        LoopbackServer(NO_BUCKET) as store,
        pytest.raises(UsageError, match="no bucket b: create it"),
    ):
        S3Login(options(store.url, bucket="b")).log_in()


VERSION_1 = b"<ListBucketResult><Name>b</Name><Marker></Marker></ListBucketResult>"
MOVED = {"Location": "https://me:s3cret@s3.example.com/b?X-Amz-Signature=s3cret"}


@pytest.mark.parametrize(("answer", "given", "says"), [
    *((Answer(status, MOVED, b"<html>"), {},
       rf"redirects to https://s3.example.com/b \({status}\).* give that URL")
      for status in (301, 302, 307, 308)),
    (BUCKETS, {"style": "virtual"}, "as if it had named none: give --s3-style path"),
    (BUCKETS, {"style": "virtual", "bucket": "b"}, "give --s3-style path"),
    (Answer(200, {}, VERSION_1), {"bucket": "b"}, "the store has no ListObjectsV2"),
    (Answer(200, {}, b"<html></html>"), {}, "expected ListAllMyBucketsResult in XML, .* html"),
    (Answer(200, {}, b"Welcome!"), {"bucket": "b"}, "expected ListBucketResult in XML"),
])  # fmt: skip
def test_what_no_run_could_use_ends_the_login(
    answer: Answer, given: dict[str, str], says: str
) -> None:
    with LoopbackServer(answer) as store, pytest.raises(AuthError, match=says) as caught:
        S3Login(options(store.url, **given)).log_in()
    assert "s3cret" not in str(caught.value)


# --- Renewal


def test_a_renewal_follows_the_region_and_outlives_a_silent_store() -> None:
    with LoopbackServer(LISTING, OTHER_REGION, Answer(200, {}, b"")) as store:
        provider = S3Login(options(store.url, bucket="b"))
        provider.log_in()
        assert provider.renew().payload["region"] == "eu-west-1"
    assert provider.renew().payload["region"] == "eu-west-1"  # the store is gone by now


def test_a_renewal_asks_what_gives_the_keys_again() -> None:
    keys = {"SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00Z"}
    answers = [
        Answer(200, {}, json.dumps({"AccessKeyId": key, **keys}).encode()) for key in ("AK1", "AK2")
    ]
    with LoopbackServer(*answers) as service, LoopbackServer(BUCKETS) as store:
        environ = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{service.url}/keys"}
        provider = S3Login(options(store.url, {"HOME": "/nonexistent", **environ}))
        assert provider.log_in().credentials.payload["access_key"] == "AK1"
        assert provider.renew().payload["access_key"] == "AK2"
    assert len(service.seen) == 2


@pytest.mark.parametrize(
    ("environ", "answer", "kind"),
    [
        (ENVIRON, refused(403, "InvalidAccessKeyId"), RejectedError),
        # What gives temporary keys may give others a little later.
        ({**ENVIRON, "AWS_SESSION_TOKEN": "t"}, refused(403, "ExpiredToken"), AuthError),
        (ENVIRON, refused(403, "RequestTimeTooSkewed"), AuthError),
    ],
)
def test_a_renewal_tells_whether_other_keys_may_come(
    environ: dict[str, str], answer: Answer, kind: type[AuthError]
) -> None:
    with LoopbackServer(BUCKETS, answer) as store:
        provider = S3Login(options(store.url, environ))
        provider.log_in()
        with pytest.raises(AuthError) as caught:
            provider.renew()
    assert type(caught.value) is kind


def test_a_renewal_without_usable_keys_is_an_error_of_access(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("s")
    with LoopbackServer(BUCKETS) as store:
        environ = {"AWS_ACCESS_KEY_ID": "A", "HOME": str(tmp_path)}
        provider = S3Login(options(store.url, environ, secret_key_file=str(file)))
        provider.log_in()
        file.unlink()
        with pytest.raises(AuthError, match="secret: can't be read: No such file"):
            provider.renew()
        file.write_text("s")
        environ["AWS_SESSION_TOKEN"] = "t\u00f6ken"
        with pytest.raises(AuthError, match="can't be sent in a header"):
            provider.renew()
