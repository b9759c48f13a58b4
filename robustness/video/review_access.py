"""Which requests the server answers: only those of its own page."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from email.message import Message

HEADERS: Mapping[str, str] = {
  'Content-Security-Policy': "default-src 'none'; img-src 'self' data:; script-src 'self'; "
  "style-src 'self'; connect-src 'self'; base-uri 'none'; "
  "form-action 'none'; frame-ancestors 'none'",
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
}


def is_loopback(host: str) -> bool:
  """Whether only this machine reaches a server bound to the host."""
  try:
    return ipaddress.ip_address(host).is_loopback
  except ValueError:
    return host == 'localhost'


def is_own_host(header: str | None, bound: str, port: int) -> bool:
  """Whether the Host header names this server.

  A page of another site that has its name resolve to this machine sends that name; numbers
  cannot be made to resolve elsewhere.

  Args:
    header: the Host header.
    bound: the host the server is bound to.
    port: its port.
  """
  name, _, digits = (header or '').rpartition(':')
  if digits != str(port):
    return False
  name = name.removeprefix('[').removesuffix(']').lower()
  if name == 'localhost' or name == bound.lower():
    return True
  try:
    number = ipaddress.ip_address(name)
  except ValueError:
    return not is_loopback(bound) and name in (
      socket.gethostname().lower(),
      socket.getfqdn().lower(),
    )
  return number.is_loopback or not is_loopback(bound)


def is_own_site(headers: Message) -> bool:
  """Whether a browser sends the request for the page itself, or for whoever typed the address."""
  return headers.get('Sec-Fetch-Site') in (None, 'same-origin', 'none')


def is_own_post(headers: Message) -> bool:
  """Whether a POST comes from the page itself.

  Another site's form cannot send JSON, and its script must ask first, which is not granted; the
  Origin that browsers add must agree.
  """
  kind = headers.get('Content-Type', '').split(';')[0].strip().lower()
  origin = headers.get('Origin')
  return kind == 'application/json' and origin in (None, f'http://{headers.get("Host")}')
