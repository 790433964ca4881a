"""Requests that no honest client sends: every one is refused in Tinker's form, and the server lives on."""

import socket

import httpx
import pytest
import zstandard
from tinker.proto import tinker_public_pb2 as pb

pytestmark = pytest.mark.component

POSTS = (
    "client/config",
    "create_session",
    "create_model",
    "get_info",
    "forward_backward",
    "optim_step",
    "save_weights",
    "save_weights_for_sampler",
    "load_weights",
    "create_sampling_session",
    "asample",
    "retrieve_future",
    "cancel_future",
    "weights_info",
)


@pytest.fixture
def http(server):
    with httpx.Client(
        base_url=f"{server.url}/api/v1/", headers={"X-API-Key": server.token}, timeout=60
    ) as session:
        yield session
        assert session.get("healthz").json()["status"] == "ok"


@pytest.fixture
def run(http, server):
    """The id of a training run."""
    session = http.post("create_session", json={"tags": [], "sdk_version": "0"}).json()["session_id"]
    body = {"session_id": session, "model_seq_id": 0, "base_model": server.model, "lora_config": {"rank": 2}}
    promise = http.post("create_model", json=body).json()
    assert http.post("retrieve_future", json=promise).json()["model_id"] == f"{session}:train:0"
    return promise["model_id"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-API-Key": "tml-wrong"},
        {"Authorization": "Bearer tml-wrong"},
        {"X-API-Key": "ä"},
        {"Authorization": "Basic {token}"},
        {"X-API-Key": "tml-"},
    ],
)
def test_a_wrong_token_is_refused_everywhere(server, headers):
    """Guards against a way around the token, on any path."""
    headers = {
        name: value.replace("{token}", server.token).encode("latin-1") for name, value in headers.items()
    }
    for method, path in (("GET", "/api/v1/healthz"), ("POST", "/api/v1/asample"), ("GET", "/nowhere")):
        answer = httpx.request(method, server.url + path, headers=headers)
        assert answer.status_code == 401 and "token" in answer.json()["detail"]


def test_the_token_is_taken_in_both_headers(server):
    """Guards against clients of either protocol that cannot log in."""
    for headers in ({"X-API-Key": server.token}, {"Authorization": f"Bearer {server.token}"}):
        assert httpx.get(f"{server.url}/api/v1/healthz", headers=headers).status_code == 200


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("body", [b"\xff\xfe\x00", b"[1, 2]", b"{", b'{"model_id": 7}', b"null"])
def test_malformed_bodies_are_the_clients_fault(http, path, body):
    """Guards against a 500, or worse, for bytes that are not what the endpoint reads."""
    answer = http.post(path, content=body)
    assert answer.status_code in (200, 400, 404)
    if answer.status_code != 200:
        assert isinstance(answer.json()["detail"], str)


def test_malformed_protobuf_is_400(http, run):
    """Guards against a parser's error that ends as a 500 or hangs as a future."""
    whole = pb.ForwardBackwardRequest(model_id=run, seq_id=1, loss_fn="cross_entropy").SerializeToString()
    for body in (whole[:-3], b"\x0a\xff\xff\xff\xff\x0f", b"", b"\x00" * 100):
        assert http.post("forward_backward", content=body).status_code == 400


def test_zstd_is_read_and_broken_zstd_refused(http, run):
    """Guards against compressed bodies that are not understood, broken ones, and unknown encodings."""
    message = pb.ForwardBackwardRequest(model_id=run, seq_id=1, loss_fn="cross_entropy")
    datum = message.data.add()
    datum.model_input.add().encoded_text.tokens = b"\x01\x00\x00\x00"
    datum.loss_fn_inputs["target_tokens"].dtype = pb.DTYPE_INT64
    datum.loss_fn_inputs["target_tokens"].dense = b"\x02" + b"\x00" * 7
    packed = zstandard.ZstdCompressor().compress(message.SerializeToString())
    promise = http.post("forward_backward", content=packed, headers={"content-encoding": "zstd"}).json()
    done = http.post("retrieve_future", json=promise)
    assert done.headers["content-type"] == "application/x-protobuf"
    assert pb.ForwardBackwardOutput.FromString(done.content).metrics["trained_tokens:sum"] == 1
    broken = http.post("forward_backward", content=packed[:-9] + b"x", headers={"content-encoding": "zstd"})
    assert broken.status_code == 400
    assert http.post("forward_backward", content=b"", headers={"content-encoding": "br"}).status_code == 400


def test_oversized_bodies_are_413(servers):
    """Guards against memory taken by a body that is announced, streamed or decompressed beyond the limit."""
    small = servers("--body-limit", "65536")
    headers = {"X-API-Key": small.token}
    url = f"{small.url}/api/v1/forward_backward"
    assert httpx.post(url, content=b"x" * 70_000, headers=headers).status_code == 413
    assert httpx.post(url, content=(b"x" * 9_000 for _ in range(9)), headers=headers).status_code == 413
    bomb = zstandard.ZstdCompressor().compress(b"\x00" * 50_000_000)
    assert len(bomb) < 65536
    answer = httpx.post(url, content=bomb, headers=headers | {"content-encoding": "zstd"})
    assert answer.status_code == 413 and "65536" in answer.json()["detail"]
    assert httpx.get(f"{small.url}/api/v1/healthz", headers=headers).status_code == 200


def test_unknown_ids_are_404(http, run):
    """Guards against look-ups that answer with a 500, or with another client's things."""
    nobody = "0123456789abcdef"
    adam = {"adam_params": {"learning_rate": 1e-4}}
    posts = {
        "session_heartbeat": {"session_id": nobody},
        "create_model": {"session_id": nobody, "model_seq_id": 0, "base_model": "x"},
        "get_info": {"model_id": f"{nobody}:train:0"},
        "optim_step": {"model_id": "nonsense", **adam},
        "save_weights": {"model_id": run.replace(":0", ":9"), "path": "a"},
        "load_weights": {"session_id": run[:16], "model_seq_id": 3, "path": f"tinker://{run}/weights/none"},
        "create_sampling_session": {"session_id": nobody, "sampling_session_seq_id": 0, "base_model": "x"},
        "asample": {"sampling_session_id": f"{nobody}:sample:0", "seq_id": 0, "prompt": {"chunks": []}},
        "retrieve_future": {"request_id": "nonsense"},
        "weights_info": {"tinker_path": f"tinker://{run}/weights/none"},
        f"sessions/{nobody}/finish": {},
    }
    for path, body in posts.items():
        answer = http.post(path, json=body)
        assert answer.status_code == 404 and answer.json()["detail"], path
    for path in (
        f"training_runs/{nobody}:train:0",
        f"training_runs/{nobody}:train:0/checkpoints",
        f"samplers/{nobody}:sample:0",
        f"sessions/{nobody}",
        "no_such_endpoint",
    ):
        assert http.get(path).status_code == 404, path
    assert http.delete(f"training_runs/{run}/checkpoints/weights/none").status_code == 404
    assert http.get("asample").status_code == 405


def test_an_answer_that_is_gone_is_410(http, run):
    """Guards against a client that waits for ever: the SDK samples again when it reads 410."""
    assert http.post("retrieve_future", json={"request_id": f"{run}:99"}).status_code == 410


@pytest.mark.parametrize(
    "name", ["..", ".", "../../evil", "a/b", "/etc/passwd", "a\\b", "", ".hidden", "a\x00b", "ä", "x" * 200]
)
def test_no_path_leaves_the_state_directory(http, run, server, tmp_path, name):
    """Guards against path traversal by a checkpoint's name, when it is saved, loaded or deleted."""
    before = {file for file in server.state.parent.rglob("*") if server.state not in file.parents}
    saved = http.post("save_weights_for_sampler", json={"model_id": run, "path": name}).json()
    assert http.post("retrieve_future", json=saved).json()["category"] == "user"
    path = f"tinker://{run}/weights/{name}"
    session = {"session_id": run[:16], "model_seq_id": 7}
    assert http.post("load_weights", json={**session, "path": path}).status_code == 400
    asked = {"session_id": run[:16], "sampling_session_seq_id": 0, "model_path": path}
    assert http.post("create_sampling_session", json=asked).status_code == 400
    assert http.post("weights_info", json={"tinker_path": path}).status_code == 400
    after = {file for file in server.state.parent.rglob("*") if server.state not in file.parents}
    assert before == after


@pytest.mark.parametrize(
    "path",
    [
        "tinker://../../x/weights/a",
        "tinker://0123456789abcdef:train:0/../weights/a",
        "tinker://0123456789abcdef:train:0/unnamed/0",
        "file:///etc/passwd",
        "tinker://%2e%2e/weights/a",
        "/etc/passwd",
    ],
)
def test_no_run_or_kind_leaves_the_state_directory(http, run, path):
    """Guards against path traversal by the other parts of a path."""
    body = {"session_id": run[:16], "model_seq_id": 7, "path": path}
    assert http.post("load_weights", json=body).status_code in (400, 404)
    raw = path.removeprefix("tinker://").replace("weights/", "checkpoints/weights/")
    assert http.delete(f"training_runs/{raw}").status_code in (400, 404, 405)


def test_requests_of_a_run_are_done_in_the_order_of_their_numbers(http, run):
    """Guards against an optimiser step that overtakes the gradient it was meant for."""
    adam = {"adam_params": {"learning_rate": 1e-3}}
    late = http.post("optim_step", json={"model_id": run, "seq_id": 2, **adam}).json()
    message = pb.ForwardBackwardRequest(model_id=run, seq_id=1, loss_fn="cross_entropy")
    datum = message.data.add()
    datum.model_input.add().encoded_text.tokens = b"\x01\x00\x00\x00"
    datum.loss_fn_inputs["target_tokens"].dtype = pb.DTYPE_INT64
    datum.loss_fn_inputs["target_tokens"].dense = b"\x02" + b"\x00" * 7
    http.post("forward_backward", content=message.SerializeToString())
    assert http.post("retrieve_future", json=late).json()["metrics"]["grad_norm"] > 0


def test_a_request_that_is_posted_again_is_not_done_again(http, run):
    """Guards against two optimiser steps for one, when the answer to the first post was lost."""
    body = {"model_id": run, "seq_id": 1, "path": "once"}
    first, again = (http.post("save_weights", json=body).json() for _ in range(2))
    assert first == again
    results = [http.post("retrieve_future", json=each).json() for each in (first, again)]
    assert results[0] == results[1] == {"path": f"tinker://{run}/weights/once", "type": "save_weights"}


def test_a_client_that_hangs_up_does_no_harm(server, http):
    """Guards against half a request, or a connection cut in mid-body, that ends more than itself."""
    host, port = server.url.removeprefix("http://").split(":")
    head = f"POST /api/v1/asample HTTP/1.1\r\nHost: x\r\nX-API-Key: {server.token}\r\n"
    for text in ("GARBAGE\r\n\r\n", "POST /api", head + "Content-Length: 99\r\n\r\nabc", head + "\r\n"):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(text.encode())
