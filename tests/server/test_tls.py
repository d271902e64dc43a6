"""HTTPS with certificates that openssl makes: served, renewed, refused, and asked of clients."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from tenfold.config.server import ServerSettings
from tenfold.core.errors import TenfoldError
from tenfold.server.tls import server_context
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer
from tests.server.test_chat import HELLO, TEXT

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl command")
CHAT = "/v1/chat/completions"


def make(folder: Path, name: str, *more: str) -> tuple[str, str]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", str(certificate), "-keyout", str(key)),
            *(more or ("-nodes",)),
        ],
        check=True,
        capture_output=True,
    )
    return str(certificate), str(key)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def pair(folder):
    return make(folder, "server")


def trusting(*certificates):
    context = ssl.create_default_context(cafile=certificates[0])
    for each in certificates[1:]:
        context.load_verify_locations(each)
    return context


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_over_tls(pair, stream):
    certificate, key = pair
    with RunningServer(
        FakeEngine(), ssl_certfile=certificate, ssl_keyfile=key, verify=trusting(certificate)
    ) as server:
        assert server.url.startswith("https://127.0.0.1:")
        reply = server.client.post(CHAT, json={"messages": HELLO, "stream": stream})
        assert reply.status_code == 200
        if stream:
            assert reply.text.endswith("data: [DONE]\n\n")
        else:
            assert reply.json()["choices"][0]["message"]["content"] == TEXT
        with pytest.raises(httpx.HTTPError):
            httpx.get(server.url.replace("https", "http") + "/health")
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url + "/health", verify=ssl.create_default_context())


def test_idle_connections_do_not_hold_up_the_end(pair, caplog):
    certificate, key = pair
    with (
        httpx.Client(verify=trusting(certificate)) as idle,
        RunningServer(
            FakeEngine(), ssl_certfile=certificate, ssl_keyfile=key, verify=trusting(certificate)
        ) as server,
    ):
        assert idle.get(server.url + "/health").status_code == 200
        server.server.stop()
        start = time.monotonic()
        server.thread.join(10)
        assert time.monotonic() - start < 1.5
    assert "graceful" not in caplog.text


def test_renewed_files_are_read_and_wrong_ones_change_nothing(tmp_path, folder, pair):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(pair[0], certificate)
    shutil.copy(pair[1], key)
    fresh, fresh_key = make(folder, "fresh")
    with RunningServer(
        FakeEngine(), ssl_certfile=str(certificate), ssl_keyfile=str(key), verify=trusting(pair[0])
    ) as server:
        assert server.client.get("/health").status_code == 200
        shutil.copy(fresh, certificate)
        (problem,) = server.server._service.reload()  # the key is still the old one
        assert "belongs to another certificate" in problem
        assert httpx.get(server.url + "/health", verify=trusting(pair[0])).status_code == 200
        shutil.copy(fresh_key, key)
        assert server.server._service.reload() == []
        assert httpx.get(server.url + "/health", verify=trusting(fresh)).status_code == 200
        assert server.client.get("/health").status_code == 200  # on the connection it had


def test_clients_must_show_a_certificate_where_authorities_are_named(folder, pair):
    certificate, key = pair
    ours, ours_key = make(folder, "client")
    with RunningServer(
        FakeEngine(),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        ssl_ca_certs=ours,
        verify=trusting(certificate),
    ) as server:
        with pytest.raises(httpx.TransportError):
            server.client.get("/health")
        known = trusting(certificate)
        known.load_cert_chain(ours, ours_key)
        assert httpx.get(server.url + "/health", verify=known).status_code == 200


def refusal(**settings):
    with pytest.raises(TenfoldError) as caught:
        server_context(ServerSettings(**settings))
    return str(caught.value)


def test_mistakes_are_sentences(folder, pair):
    certificate, key = pair
    locked, locked_key = make(folder, "locked", "-passout", "pass:sesame")
    assert server_context(ServerSettings()) is None
    given = {"ssl_certfile": locked, "ssl_keyfile": locked_key}
    assert server_context(ServerSettings(**given, ssl_keyfile_password="sesame")) is not None
    assert "TENFOLD_SSL_KEYFILE_PASSWORD" in refusal(**given)
    wrong = refusal(**given, ssl_keyfile_password="not-it")
    assert "the password is wrong" in wrong
    assert "not-it" not in wrong
    assert "another certificate" in refusal(
        ssl_certfile=certificate, ssl_keyfile=locked_key, ssl_keyfile_password="sesame"
    )
    assert "No such file" in refusal(ssl_certfile=str(folder / "absent"))
    assert "PEM" in refusal(ssl_certfile=key, ssl_keyfile=certificate)
    assert "authorities" in refusal(ssl_certfile=certificate, ssl_keyfile=key, ssl_ca_certs=key)
    assert (
        server_context(ServerSettings(ssl_certfile=certificate, ssl_keyfile=key)).minimum_version
        >= ssl.TLSVersion.TLSv1_2
    )
