import socket

import pytest

from server.sockets import listen, url
from sparta.errors import InputError


def test_url() -> None:
    assert url("127.0.0.1", 8000) == "http://127.0.0.1:8000"
    assert url("0.0.0.0", 80) == "http://127.0.0.1:80"
    assert url("::1", 8000) == "http://[::1]:8000"


def test_a_taken_port_is_told_from_an_address_that_is_not_ours() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} on 127.0.0.1 is in use.*--port"):
            listen("127.0.0.1", port)
    with pytest.raises(InputError, match=r"cannot listen on 203\.0\.113\.1"):
        listen("203.0.113.1", 0)


def test_connections_send_small_answers_at_once() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
