"""What the server gives to whom: no file but its frames, and nothing to other sites and hosts."""

from __future__ import annotations

import json

import pytest

from robustness.core.errors import InputError
from robustness.video.review_server import ReviewServer
from tests.video.review_serving import PAIR, SETS, Client

OUTSIDE = [
  '/frames/../secret.png',
  '/frames/..%2fsecret.png',
  '/frames/%2e%2e/secret.png',
  '/frames/%2e%2e%2fsecret.png',
  '/frames//etc/passwd',
  '/frames/..\\secret.png',
  '/frames/val/clip_00000/000010.png',
  '/frames/999',
  '/frames/-1',
  '/frames/0/../../x',
  '/frames/0%00',
  '/frames/',
  '/secret.png',
  '/../secret.png',
  '/answers.jsonl',
  '/frames/%D9%A1',
  '/page/review.html',
  '/review.js/../server.py',
  '//review.html',
]


@pytest.mark.parametrize('address', OUTSIDE)
def test_no_other_file_is_served(server: ReviewServer, client: Client, address: str) -> None:
  (server.log.path.parent / 'secret.png').write_bytes(b'secret')
  status, content, _ = client.send('GET', address)
  assert status == 404 and b'secret.png' not in content


def test_a_frame_that_becomes_a_link_out_of_the_folder_is_not_served(
  server: ReviewServer, client: Client
) -> None:
  folder = server.log.path.parent
  (folder / 'secret.png').write_bytes(b'secret')
  frame = folder / 'frames' / SETS.sets.frames[0]
  frame.unlink()
  frame.symlink_to(folder / 'secret.png')
  status, content, _ = client.send('GET', '/frames/0')
  assert status == 404 and content != b'secret'


@pytest.mark.parametrize(
  'host',
  [
    'evil.example',
    'evil.example:{port}',
    '127.0.0.1',
    '127.0.0.1:1',
    '192.0.2.7:{port}',
    '',
    'localhost:{port}.evil',
  ],
)
@pytest.mark.parametrize('method', ['GET', 'POST'])
def test_requests_under_another_host_name_are_refused(
  server: ReviewServer, client: Client, method: str, host: str
) -> None:
  name = host.format(port=server.port)
  status, _, _ = client.send(
    method,
    '/api/session',
    json.dumps(PAIR).encode(),
    {'Host': name, 'Content-Type': 'application/json'},
  )
  assert status == 403 and server.log.answers == []


@pytest.mark.parametrize(
  'headers',
  [
    {'Content-Type': 'text/plain'},
    {'Content-Type': 'application/x-www-form-urlencoded'},
    {'Content-Type': ''},
    {'Origin': 'http://evil.example'},
    {'Origin': 'null'},
    {'Origin': 'http://127.0.0.1:1'},
    {'Sec-Fetch-Site': 'cross-site'},
    {'Sec-Fetch-Site': 'same-site'},
  ],
)
def test_answers_of_another_site_are_refused(
  server: ReviewServer, client: Client, headers: dict[str, str]
) -> None:
  before = server.log.path.read_bytes()
  status, _ = client.post(PAIR, **headers)
  assert status == 403 and server.log.path.read_bytes() == before


def test_another_site_cannot_ask_for_pairs_or_frames(client: Client) -> None:
  for address in ('/api/next?annotator=ann', '/api/session', '/frames/0', '/review.js'):
    for site, status in (('cross-site', 403), ('same-site', 403), ('same-origin', 200)):
      assert client.send('GET', address, headers={'Sec-Fetch-Site': site})[0] == status
  assert client.send('GET', '/', headers={'Sec-Fetch-Site': 'cross-site'})[0] == 200


def test_answers_of_the_page_itself_are_taken(server: ReviewServer, client: Client) -> None:
  for name in ('127.0.0.1', 'localhost', '[::1]'):
    host = f'{name}:{server.port}'
    headers = {'Host': host, 'Origin': f'http://{host}', 'Sec-Fetch-Site': 'same-origin'}
    assert client.post(PAIR, **headers)[0] == 200


def test_the_page_asks_nobody_else(client: Client) -> None:
  for address in ('/', '/review.js', '/review.css'):
    status, content, headers = client.send('GET', address)
    assert status == 200 and b'//' not in content.replace(b'// ', b'')
    assert "default-src 'none'" in headers['Content-Security-Policy']
    assert headers['X-Content-Type-Options'] == 'nosniff'
    assert headers['Cross-Origin-Resource-Policy'] == 'same-origin'


def test_other_methods_and_cross_origin_questions_are_not_granted(client: Client) -> None:
  status, _, headers = client.send(
    'OPTIONS',
    '/api/answer',
    headers={'Origin': 'http://evil.example', 'Access-Control-Request-Method': 'POST'},
  )
  assert status == 501 and 'Access-Control-Allow-Origin' not in headers


def test_it_is_bound_to_loopback_and_a_port_in_use_is_refused(server: ReviewServer) -> None:
  assert server.server_address[0] == '127.0.0.1'
  with pytest.raises(InputError, match=f'cannot serve on 127.0.0.1, port {server.port}'):
    ReviewServer(server.rounds, server.log, server.frames, port=server.port)
  with pytest.raises(InputError, match='port 70000'):
    ReviewServer(server.rounds, server.log, server.frames, port=70000)
  with pytest.raises(InputError, match='cannot serve on no.such.host.invalid'):
    ReviewServer(server.rounds, server.log, server.frames, host='no.such.host.invalid')
