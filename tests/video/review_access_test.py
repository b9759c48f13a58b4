"""Which names of the machine are its own."""

from __future__ import annotations

import socket

import pytest

from robustness.video.review_access import is_loopback, is_own_host

NAME = socket.gethostname().lower()


@pytest.mark.parametrize(
  ('host', 'loopback'),
  [
    ('127.0.0.1', True),
    ('127.3.2.1', True),
    ('::1', True),
    ('localhost', True),
    ('0.0.0.0', False),
    ('192.168.1.5', False),
    ('::', False),
    ('evil.example', False),
  ],
)
def test_loopback(host: str, loopback: bool) -> None:
  assert is_loopback(host) is loopback


@pytest.mark.parametrize(
  ('header', 'bound', 'own'),
  [
    ('127.0.0.1:80', '127.0.0.1', True),
    ('localhost:80', '127.0.0.1', True),
    ('LOCALHOST:80', '127.0.0.1', True),
    ('[::1]:80', '::1', True),
    ('127.0.0.1:81', '127.0.0.1', False),
    ('127.0.0.1', '127.0.0.1', False),
    ('192.168.1.5:80', '127.0.0.1', False),
    ('192.168.1.5:80', '0.0.0.0', True),
    ('192.168.1.5:80', '192.168.1.5', True),
    ('evil.example:80', '0.0.0.0', False),
    ('evil.example:80', '127.0.0.1', False),
    (f'{NAME}:80', '0.0.0.0', True),
    ('lab.example:80', 'lab.example', True),
    (None, '127.0.0.1', False),
    ('', '0.0.0.0', False),
  ],
)
def test_own_host(header: str | None, bound: str, own: bool) -> None:
  assert is_own_host(header, bound, 80) is own
