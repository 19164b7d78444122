"""URLs of buckets, settings and profiles: what is understood, what is refused, and that no secret is ever shown."""

from __future__ import annotations

import copy
import pickle

import pytest

from spark_eos.config.store import STORE
from spark_eos.errors import ConfigError
from spark_eos.storage import NO_SETTINGS, Settings, open_store, shared_store, split_settings
from spark_eos.storage.objects.aws_profile import read_profile
from spark_eos.storage.objects.clients import connect, parse_location
from spark_eos.storage.objects.store import ObjectStore

SECRET = "kept-from-everybody"
KEYS = {"s3.access-key-id": "AKID", "s3.secret-access-key": SECRET}


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch, tmp_path):
    """No credentials from the machine that runs the tests."""
    for name in (
        *(
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
        ),
        *(
            "AWS_PROFILE",
            "AWS_ENDPOINT_URL",
            "AWS_ENDPOINT_URL_S3",
            "AZURE_STORAGE_ACCOUNT_NAME",
            "GOOGLE_BASE_URL",
        ),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


# -- URLs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "spelt", "container", "prefix"),
    [
        ("s3://bucket/some/log", "s3://bucket/some/log", "bucket", "some/log/"),
        ("s3a://bucket/some/log/", "s3://bucket/some/log", "bucket", "some/log/"),
        ("S3://bucket", "s3://bucket", "bucket", ""),
        ("s3://my.bucket-1/", "s3://my.bucket-1", "my.bucket-1", ""),
        ("s3://bucket/a%20b/ü?c#d", "s3://bucket/a%20b/ü?c#d", "bucket", "a%20b/ü?c#d/"),
        ("gs://bucket/log", "gs://bucket/log", "bucket", "log/"),
        ("az://box/log", "az://box/log", "box", "log/"),
        ("abfs://box/log", "az://box/log", "box", "log/"),
        (
            "abfss://box@acc.dfs.core.windows.net/log",
            "abfss://box@acc.dfs.core.windows.net/log",
            "box",
            "log/",
        ),
        ("abfs://box@ACC.blob.core.windows.net/", "abfss://box@acc.dfs.core.windows.net", "box", ""),
    ],
)
def test_places(url, spelt, container, prefix):
    location = parse_location(url)
    assert (location.url, location.container, location.prefix) == (spelt, container, prefix)
    assert parse_location(spelt) == location


def test_the_account_of_a_url_is_used():
    location = parse_location("abfss://box@acc.dfs.core.chinacloudapi.cn/log")
    assert (location.account, location.endpoint) == ("acc", "https://acc.blob.core.chinacloudapi.cn")


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("s3:bucket/log", "s3://bucket/log"),
        ("s3://", "s3://bucket/log"),
        ("s3:///log", "s3://bucket/log"),
        ("s3://b/log", "no name of a bucket"),
        ("s3://bucket//log", "empty part"),
        ("s3://bucket/a/../log", r"\.\."),
        ("s3://bucket/" + "x" * 300, "too long"),
        ("s3://bu cket/log", "no name of a bucket"),
        ("gs://bucket/./log", "empty part"),
        ("abfss://box@somewhere/log", "no account's address"),
        ("az://box/log", "adls.account-name"),
    ],
)
def test_malformed_urls(url, hint):
    with pytest.raises(ConfigError, match=hint):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    ["s3://AKID:{}@bucket/log", "s3://AKID:{}/half@bucket/log", "abfss://user:{}@acc.x/log", "gs://{}@b/l"],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url):
    with pytest.raises(ConfigError, match="do not belong into a URL") as caught:
        open_store(url.format(SECRET))
    assert SECRET not in str(caught.value)


def test_one_store_for_one_url_and_settings():
    settings = Settings(KEYS)
    store = shared_store("s3://bucket/shared-1", settings)
    assert shared_store("s3a://bucket/shared-1/", Settings(dict(KEYS))) is store
    assert shared_store("s3a://bucket/shared-1/", settings) is store
    assert shared_store("s3://bucket/shared-1", Settings({**KEYS, "s3.region": "eu-west-1"})) is not store
    assert shared_store("s3://bucket/shared-2", settings) is not store


# -- Settings -----------------------------------------------------------------------------------------


def test_options_are_split():
    rest, settings = split_settings(
        {"path": "s3://b/l", "S3.Region": " eu-west-1 ", "s3.path-style-access": True}
    )
    assert rest == {"path": "s3://b/l"}
    assert dict(settings) == {"s3.region": "eu-west-1", "s3.path-style-access": "True"}
    assert not settings.flag("s3.anonymous")
    assert settings.flag("s3.path-style-access")
    assert settings.of("s3.p") == Settings({"s3.path-style-access": "True"})


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("s3.acces-key-id", "x", "did you mean s3.access-key-id"),
        ("gcs.nonsense", "x", "known are gcs"),
        ("s3.endpoint", "localhost:9000", "https://host:port"),
        ("s3.endpoint", "ftp://localhost", "https://host:port"),
        ("s3.path-style-access", "yes", "true or false"),
        ("s3.request-timeout", "0", "seconds"),
        ("s3.request-timeout", "soon", "seconds"),
        ("s3.region", " ", "empty"),
    ],
)
def test_settings_that_mean_nothing(key, value, hint):
    with pytest.raises(ConfigError, match=hint):
        Settings({key: value})


def test_settings_are_values():
    settings = Settings(KEYS)
    for other in (
        Settings(dict(reversed(KEYS.items()))),
        pickle.loads(pickle.dumps(settings)),
        copy.deepcopy(settings),
    ):
        assert other == settings
        assert hash(other) == hash(settings)
        assert dict(other) == KEYS
    assert settings != Settings({**KEYS, "s3.region": "x"})
    assert settings != KEYS
    assert not NO_SETTINGS
    with pytest.raises(TypeError):
        settings["s3.region"] = "x"


def test_secrets_are_not_shown():
    for name, setting in STORE.items():
        value = f"http://user:{SECRET}@proxy:1" if name.endswith("proxy-uri") else SECRET
        if name == "encryption.keys":
            assert SECRET not in repr(
                Settings({name: f"file:/{SECRET}"})
            )  # It is a reference, and not scrubbed.
        elif setting.is_secret:
            settings = Settings({name: value})
            for shown in (
                repr(settings),
                str(settings),
                f"{settings}",
                f"{[settings]}",
                f"{ ({'a': settings}) }",
            ):
                assert SECRET not in shown
                assert "***" in shown
            assert SECRET not in settings.scrub(f"It said {value}, twice {value}.")
    signed = Settings({"adls.sas-token": f"sv=2021-08-06&se=2026-11-21T12:00:00Z&sig={SECRET}%3D%3D"})
    assert signed.scrub(f"at 2021-08-06: sig={SECRET} is wrong") == "at 2021-08-06: sig=*** is wrong"
    proxied = Settings({"s3.proxy-uri": f"http://user:{SECRET}@localhost:1"})
    assert proxied.scrub(f"http://localhost said no to {SECRET}") == "http://localhost said no to ***"
    short = Settings({"gcs.oauth2.token": "four", "s3.session-token": "and"})
    assert short.scrub("four and five") == "*** and five"
    with pytest.raises(ConfigError) as caught:
        Settings({"s3.proxy-uri": SECRET})
    assert SECRET not in str(caught.value)
    secrets = [name for name, setting in STORE.items() if setting.is_secret]
    assert {"s3.secret-access-key", "adls.account-key", "adls.sas-token", "gcs.oauth2.token"} <= set(secrets)
    assert all(any(word in name for word in ("secret", "token", "key", "proxy")) for name in secrets)


def test_a_store_does_not_show_its_secrets():
    store = open_store("s3://bucket/log", Settings(KEYS))
    assert SECRET not in repr(store)
    assert "s3://bucket/log" in repr(store)


@pytest.mark.parametrize(
    ("url", "settings", "hint"),
    [
        ("s3://bucket/log", {"s3.access-key-id": "AKID"}, "belong together"),
        ("s3://bucket/log", {"s3.session-token": SECRET}, "belong together"),
        ("s3://bucket/log", {"gcs.oauth2.token": SECRET}, "gcs.oauth2.token is none of"),
        ("s3://bucket/log", {"s3.ca-file": "/no/such/file"}, "cannot be read"),
        ("s3://bucket/log", {"s3.profile-name": "nobody"}, "no profile 'nobody'"),
        (
            "az://box/log",
            {"adls.account-name": "a", "adls.token": SECRET, "adls.sas-token": SECRET},
            "contradict",
        ),
        ("az://box/log", {"adls.account-name": "acc", "adls.client-secret": SECRET}, "needs adls.client-id"),
        ("gs://bucket/log", {"gcs.service-account-file": "/no/such/file"}, "do not fit"),
        ("/some/folder", {"s3.region": "x"}, "is none"),
        ("memory://some", {"s3.region": "x"}, "is none"),
    ],
)
def test_settings_that_do_not_fit(url, settings, hint):
    with pytest.raises(ConfigError, match=hint) as caught:
        open_store(url, Settings(settings))
    assert SECRET not in str(caught.value)


def test_without_the_library_it_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(ConfigError, match=r"spark-eos\[objectstore\]"):
        open_store("s3://bucket/log", Settings(KEYS))


# -- What becomes of them -----------------------------------------------------------------------------


def client(url, **settings):
    return connect(
        parse_location(url),
        Settings({name.replace("__", ".").replace("_", "-"): v for name, v in settings.items()}),
    )


def test_given_keys_do_not_mix_with_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another-identity")
    made = connect(parse_location("s3://bucket/log"), Settings(KEYS))
    assert made.credential_provider() == {
        "access_key_id": "AKID",
        "secret_access_key": SECRET,
        "token": None,
        "expires_at": None,
    }


def test_the_environment_counts_where_nothing_is_given(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    made = client("s3://bucket/log", s3__anonymous="true")
    assert made.config["region"] == "eu-north-1"
    assert made.config["endpoint_url_s3"] == "http://127.0.0.1:9000"
    assert str(made.client_options["allow_http"]).lower() == "true"


def test_the_default_region_of_the_environment_counts_too(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-south-1")
    assert client("s3://bucket/log").config["region"] == "eu-south-1"
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert client("s3://bucket/log").config["region"] == "eu-north-1"


def test_a_directory_bucket_has_sessions():
    assert client("s3://bucket--use1-az4--x-s3/log").config["s3_express"] == "true"
    assert "s3_express" not in client("s3://bucket/log").config


def test_the_way_to_the_store():
    made = client(
        "s3://bucket/log", s3__proxy_uri="http://proxy:1", s3__connect_timeout="7", s3__request_timeout="9"
    )
    assert made.client_options["proxy_url"] == "http://proxy:1"
    assert (made.client_options["connect_timeout"], made.client_options["timeout"]) == ("7s", "9s")


def test_an_anonymous_client_of_google_asks_for_no_credentials():
    """The library's writes ask for some though no request is signed."""
    assert client("gs://bucket/log", gcs__no_auth="true").credential_provider()["token"] == "none"


def test_plain_http_only_if_somebody_wrote_it():
    made = client("s3://bucket/log", s3__endpoint="HTTP://127.0.0.1:9000", s3__anonymous="true")
    assert str(made.client_options["allow_http"]).lower() == "true"
    made = client("s3://bucket/log", s3__endpoint="https://store.example", s3__anonymous="true")
    assert str(made.client_options["allow_http"]).lower() == "false"


def test_a_bucket_in_the_host_s_name():
    made = client(
        "s3://bucket/log",
        s3__endpoint="https://store.example:9",
        s3__path_style_access="false",
        s3__anonymous="true",
    )
    assert made.config["endpoint_url_s3"] == "https://bucket.store.example:9"
    made = client(
        "s3://bucket/log", s3__endpoint="https://bucket.store.example", s3__path_style_access="false"
    )
    assert made.config["endpoint_url_s3"] == "https://bucket.store.example"


def test_an_azure_account_by_its_url_and_by_settings(monkeypatch):
    monkeypatch.setenv(
        "AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:9101/other"
    )  # for URLs that name no account
    made = client("abfss://box@acc.dfs.core.windows.net/log", adls__account_key="a2V5")
    assert made.config["endpoint"] == "https://acc.blob.core.windows.net"
    assert made.credential_provider() == {"access_key": "a2V5", "expires_at": None}
    made = client("az://box/log", adls__account_name="other", adls__sas_token="sv=1&sig=x")
    assert made.config["account_name"] == "other"
    assert made.config["endpoint"] == "http://127.0.0.1:9101/other"
    made = client(
        "abfss://box@acc.dfs.core.windows.net/log", adls__endpoint="http://127.0.0.1:1/acc", adls__token="t"
    )
    assert made.config["endpoint"] == "http://127.0.0.1:1/acc"
    made = client("abfss://box@acc.dfs.core.windows.net/log", adls__account_name="other", adls__token="t")
    assert made.config["account_name"] == "acc"


# -- Profiles -----------------------------------------------------------------------------------------

CREDENTIALS = f"""
[default]
aws_access_key_id = DEFAULT
aws_secret_access_key = {SECRET}

[work]
aws_access_key_id = WORK
aws_secret_access_key = {SECRET}%
aws_session_token = token
"""
CONFIG = """
[default]
region = eu-west-1

[profile work]
aws_access_key_id = WORK-BUT-THE-OTHER-FILE-COUNTS
region = eu-west-2
endpoint_url = http://127.0.0.1:9000

[profile single]
sso_session = corporate
"""


def write_profiles(tmp_path):
    (tmp_path / "credentials").write_text(CREDENTIALS, "utf-8")
    (tmp_path / "config").write_text(CONFIG, "utf-8")


def test_profiles(tmp_path, monkeypatch):
    assert read_profile(None) == (None,) * 5
    write_profiles(tmp_path)
    assert read_profile(None) == ("DEFAULT", SECRET, None, "eu-west-1", None)
    assert read_profile("work") == ("WORK", f"{SECRET}%", "token", "eu-west-2", "http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert read_profile(None).key == "WORK"
    assert read_profile("default").key == "DEFAULT"
    assert SECRET not in repr(read_profile(None))


def test_a_profile_is_used(tmp_path):
    write_profiles(tmp_path)
    made = client("s3://bucket/log", s3__profile_name="work")
    assert made.credential_provider()["access_key_id"] == "WORK"
    assert made.config["region"] == "eu-west-2"
    assert made.config["endpoint_url_s3"] == "http://127.0.0.1:9000"


def test_the_environment_goes_before_a_default_profile(tmp_path, monkeypatch):
    write_profiles(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "env")
    assert client("s3://bucket/log").credential_provider is None
    assert client("s3://bucket/log", s3__profile_name="work").credential_provider()["access_key_id"] == "WORK"


def test_what_only_aws_s_own_tools_know_is_said(tmp_path):
    write_profiles(tmp_path)
    with pytest.raises(ConfigError, match=r"sso_session.*export-credentials --profile single"):
        read_profile("single")


def test_half_of_a_profile_s_keys_is_none(tmp_path):
    (tmp_path / "credentials").write_text(
        "[half]\naws_access_key_id = AKID\naws_session_token = token\n", "utf-8"
    )
    (tmp_path / "config").write_text("[profile half]\nregion = eu-west-3\n", "utf-8")
    assert read_profile("half") == (None, None, None, "eu-west-3", None)
    (tmp_path / "config").write_text("[profile half]\nrole_arn = arn:aws:iam::1:role/r\n", "utf-8")
    with pytest.raises(ConfigError, match=r"role_arn.*export-credentials --profile half"):
        read_profile("half")


def test_a_broken_file_of_profiles_is_not_quoted(tmp_path):
    (tmp_path / "credentials").write_text(f"aws_secret_access_key {SECRET}", "utf-8")
    with pytest.raises(ConfigError, match="not a file of profiles") as caught:
        read_profile(None)
    assert SECRET not in str(caught.value)


def test_object_stores_are_stores():
    store = open_store("gs://bucket/log", Settings({"gcs.no-auth": "true"}))
    assert isinstance(store, ObjectStore)
    assert not store.requests_are_free
    assert not store.has_exact_conflicts
