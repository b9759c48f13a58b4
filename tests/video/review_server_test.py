"""What the server answers, to whom, and what it writes before."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from robustness.core.errors import InputError
from robustness.video import answers as answer_log
from robustness.video.candidates import Item
from robustness.video.review_rounds import ReviewRounds
from robustness.video.review_server import MAX_BODY, ReviewServer, is_loopback, is_own_host
from tests.video.review_frames import candidates, path, save_frames
from tests.video.review_serving import PAIR, SETS, Client, served


@pytest.mark.parametrize('host', ['127.0.0.1', '127.3.2.1', '::1', 'localhost'])
def test_loopback(host: str) -> None:
  assert is_loopback(host)


@pytest.mark.parametrize('host', ['0.0.0.0', '192.168.1.5', '::', 'evil.example'])
def test_no_loopback(host: str) -> None:
  assert not is_loopback(host)


@pytest.mark.parametrize(
  ('header', 'bound', 'own'),
  [
    ('127.0.0.1:80', '127.0.0.1', True),
    ('LOCALHOST:80', '127.0.0.1', True),
    ('[::1]:80', '::1', True),
    ('127.0.0.1:81', '127.0.0.1', False),
    ('127.0.0.1', '127.0.0.1', False),
    ('192.168.1.5:80', '127.0.0.1', False),
    ('192.168.1.5:80', '0.0.0.0', True),
    ('192.168.1.5:80', '192.168.1.5', True),
    ('evil.example:80', '0.0.0.0', False),
    ('evil.example:80', '127.0.0.1', False),
    (f'{socket.gethostname().lower()}:80', '0.0.0.0', True),
    ('lab.example:80', 'lab.example', True),
    (None, '127.0.0.1', False),
    ('', '0.0.0.0', False),
  ],
)
def test_own_host(header: str | None, bound: str, own: bool) -> None:
  assert is_own_host(header, bound, 80) is own


@pytest.mark.slow
def test_two_annotators_review_3000_pairs_at_once(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(os, 'fsync', lambda _: None)  # the disk is waited for in other tests
  of = candidates(anchors=150, neighbors=20)
  objections = [f'pair:{number}' for number in range(0, 3000, 100)]
  with served(tmp_path, of) as server, ThreadPoolExecutor(2) as pool:

    def work(name: str) -> list[str]:
      return [item['id'] for item in all_answered(Client(server.port, name), *objections)[0]]

    # whoever was done first has only in the second turn the joint round to do
    turns = [list(pool.map(work, ('ann', 'bob'))) for _ in range(2)]
  expected = Counter([f'pair:{number}' for number in range(3000)] + objections)
  assert [Counter(first + then) for first, then in zip(*turns, strict=True)] == [expected] * 2
  plan, answers = answer_log.read(tmp_path / 'answers.jsonl', of.digest)
  assert len(answers) == 2 * (3000 + len(objections))
  rounds = ReviewRounds(of, plan, answers)
  assert all(rounds.is_settled(item) for item in of.items.values())


def test_the_answer_is_on_the_disk_before_the_next_pair_is_given(
  server: ReviewServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
  events: list[Any] = []
  fsync, following = os.fsync, server.next_turn
  monkeypatch.setattr(os, 'fsync', lambda file: (fsync(file), events.append('fsync')))

  def next_turn(annotator: str) -> dict[str, Any]:
    events.append(len(answer_log.read(server.log.path, SETS.digest)[1]))
    return following(annotator)

  monkeypatch.setattr(server, 'next_turn', next_turn)
  assert client.post(PAIR)[1]['item']['id'] == 'pair:1'
  assert events == ['fsync', 1]


def test_an_answer_that_cannot_be_written_is_not_confirmed(
  client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
  def full(*_: object) -> int:
    raise OSError('No space left on device')

  with monkeypatch.context() as broken:
    broken.setattr(os, 'write', full)
    status, said = client.post(PAIR)
  assert status == 500 and 'No space left' in said['error']
  assert client.next()['item']['id'] == 'pair:0'


def test_a_server_that_is_started_again_goes_on(tmp_path: pathlib.Path) -> None:
  with served(tmp_path, SETS) as server:
    client = Client(server.port)
    client.answer(client.answer(client.next()['item'])['item'])
  with open(tmp_path / 'answers.jsonl', 'a') as file:
    file.write('{"annotator": "ann", "rou')
  with served(tmp_path, SETS) as server:
    turn = Client(server.port).next()
    assert turn['item']['id'] == 'pair:2' and turn['progress']['own'] == 2


def test_what_the_page_is_told(client: Client) -> None:
  status, session = client.ask('/api/session')
  assert status == 200 and session['annotator'] is None and session['pairs'] == 6
  assert session['classes'] == [
    {'id': 0, 'name': 'cat'},
    {'id': 1, 'name': 'dog'},
    {'id': 2, 'name': 'bird'},
  ]
  item = client.next()['item']
  assert (item['anchor']['path'], item['neighbor']['path']) == (path(0, 10), path(0, 9))
  assert item['offset'] == -1 and item['labels'] == [{'id': 0, 'name': 'cat'}]
  assert item['others'] == [] and item['answer'] is None and item['neighbor_labels'] is None


def all_answered(client: Client, *against: str, stage: str = '') -> tuple[list[Any], Any]:
  """Answers the items of a round, or all; returns them with the item after the last."""
  item, seen = client.next()['item'], []
  while item and stage in ('', item['round']):
    seen.append(item)
    item = client.answer(item, keep=item['id'] not in against)['item']
  return seen, item


def test_others_answers_are_shown_in_the_joint_round_only(server: ReviewServer) -> None:
  all_answered(Client(server.port, 'ann'), 'pair:3')
  seen, _ = all_answered(Client(server.port, 'bob'))
  others = [(item['round'], [given['annotator'] for given in item['others']]) for item in seen]
  assert others == [('individual', [])] * 6 + [('joint', ['ann', 'bob'])]


def test_back_shows_the_earlier_answer_and_it_can_be_changed(client: Client) -> None:
  client.answer(client.next()['item'], keep=False)
  status, turn = client.ask('/api/back?annotator=ann&before=pair:1')
  assert status == 200 and turn['item']['id'] == 'pair:0'
  assert turn['item']['answer']['reasons'] == ['motion']
  assert client.answer(turn['item'])['item']['id'] == 'pair:1'
  status, said = client.ask('/api/back?annotator=bob&before=')
  assert status == 400 and 'no earlier answer' in said['error']


def test_added_labels_are_shown_with_the_pairs_of_the_anchor(tmp_path: pathlib.Path) -> None:
  with served(tmp_path, SETS, {'densify': True}) as server:
    client = Client(server.port)
    pair = client.answer(client.next()['item'], added=[2])['item']
    assert [label['name'] for label in pair['labels']] == ['cat', 'bird']
    assert pair['neighbor_labels'] is None
    client.answer(pair)
  assert answer_log.read(tmp_path / 'answers.jsonl', SETS.digest)[1][1].shown == (0, 2)


@pytest.mark.parametrize('added', [[0], [7], [2, -1]])
def test_only_other_classes_are_added(client: Client, added: list[int]) -> None:
  about = {'annotator': 'ann', 'item': 'anchor:0', 'round': 'individual', 'label': 'correct'}
  status, said = client.post({**about, 'added': added})
  assert status == 400 and 'ids of other classes' in said['error']


def test_a_server_for_one_annotator_takes_no_other(tmp_path: pathlib.Path) -> None:
  with served(tmp_path, SETS, annotator='ann') as server:
    client = Client(server.port)
    assert client.ask('/api/session')[1]['annotator'] == 'ann'
    status, said = client.post({**PAIR, 'annotator': 'bob'})
    assert status == 400 and "started for 'ann'" in said['error']


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'annotator': '<script>'}, 'is not a name'),
    ({'item': 'pair:99'}, 'pair:0 to pair:5'),
    ({'item': None}, "no 'None' under review"),
    ({'similar': 'very'}, 'is not an answer'),
    ({'round': 'joint'}, 'not in the joint round'),
    ({'reasons': ['motion']}, 'has a reason'),
    ({'neighbor': '../x'}, ''),
    ({'time': 'now'}, ''),
    ({'colour': 'red'}, 'unknown key'),
  ],
)
def test_bad_answers_are_refused_and_not_written(
  server: ReviewServer, client: Client, change: dict, message: str
) -> None:
  before = server.log.path.read_bytes()
  status, said = client.post({**PAIR, **change})
  if message:
    assert status == 400 and message in said['error']
    assert server.log.path.read_bytes() == before
  else:  # what the server itself knows is not taken from the request
    assert status == 200
    (answer,) = answer_log.read(server.log.path, SETS.digest)[1]
    assert SETS.items[answer.anchor, answer.neighbor] == Item('pair', 0) and answer.time > 1e9


@pytest.mark.parametrize('body', [b'', b'{', b'[]', b'"pair:0"', b'\xff', b'[' * (MAX_BODY // 2)])
def test_what_is_no_json_object_is_refused(client: Client, body: bytes) -> None:
  status, said, _ = client.send('POST', '/api/answer', body, {'Content-Type': 'application/json'})
  assert status == 400 and b'JSON' in said


def test_large_requests_are_refused_unread(client: Client) -> None:
  for length in (str(MAX_BODY + 1), '-1', 'many', '', '9' * 5000):
    status, _, headers = client.send(
      'POST', '/api/answer', b'', {'Content-Type': 'application/json', 'Content-Length': length}
    )
    assert status == 413 and headers['Connection'] == 'close'


def test_frames_are_served_and_cached_by_their_tag(server: ReviewServer, client: Client) -> None:
  item = client.next()['item']
  status, content, headers = client.send('GET', item['neighbor']['url'])
  folder = server.log.path.parent / 'frames'
  assert status == 200 and headers['Content-Type'] == 'image/png'
  assert content == (folder / item['neighbor']['path']).read_bytes()
  status, content, _ = client.send(
    'GET', item['neighbor']['url'], headers={'If-None-Match': headers['ETag']}
  )
  assert (status, content) == (304, b'')


def test_a_frame_that_is_gone_is_an_error_and_no_crash(
  server: ReviewServer, client: Client
) -> None:
  (server.log.path.parent / 'frames' / SETS.sets.frames[0]).unlink()
  status, said = client.ask('/frames/0')
  assert status == 500 and 'could not be read' in said['error']
  assert client.next()['item']['id'] == 'pair:0'


def test_a_stale_window_does_not_overwrite_a_vote(server: ReviewServer, client: Client) -> None:
  first, second = client.next()['item'], Client(server.port).next()['item']
  assert first['answered'] is None and first == second
  assert client.post({**PAIR, 'replaces': first['answered']})[0] == 200
  changed = {**PAIR, 'similar': 'unsure'}
  status, said = client.post({**changed, 'replaces': second['answered']})
  assert status == 409 and 'in another window' in said['error']
  shown = client.ask('/api/back?annotator=ann&before=pair:1&round=individual')[1]['item']
  assert shown['id'] == 'pair:0' and shown['answer']['similar'] == 'similar'
  assert client.post({**changed, 'replaces': shown['answered']})[0] == 200
  answers = answer_log.read(server.log.path, SETS.digest)[1]
  assert [given.similar for given in answers] == ['similar', 'unsure']
  assert client.post({**PAIR, 'replaces': 'x'})[0] == 400


def test_going_back_in_the_joint_round_stays_there(server: ReviewServer) -> None:
  for name in ('ann', 'bob'):
    client = Client(server.port, name)
    _, item = all_answered(client, 'pair:1', 'pair:4', stage='individual')
  assert item['id'] == 'pair:1' and item['round'] == 'joint'
  back = '/api/back?annotator=bob&before='
  status, said = client.ask(f'{back}pair:1&round=joint')
  assert (status, said['error']) == (400, 'there is no earlier answer of yours in the joint round.')
  client.answer(item)
  _, turn = client.ask(f'{back}pair:4&round=joint')
  assert (turn['item']['id'], turn['item']['round']) == ('pair:1', 'joint')
  status, said = client.post({**PAIR, 'annotator': 'bob', 'item': 'pair:1'})
  assert status == 409 and 'the individual answer stands' in said['error']
  status, said = client.ask(f'{back}pair:4&round=jiont')
  assert status == 400 and "did you mean 'joint'" in said['error']


def test_500_requests_at_once_are_all_answered(server: ReviewServer) -> None:
  limit = pathlib.Path('/proc/sys/net/core/somaxconn')
  count = min(500, int(limit.read_text()) if limit.exists() else 128)  # of other systems
  ready = threading.Barrier(count)

  def post(number: int) -> object:
    ready.wait()
    try:
      return Client(server.port).post({**PAIR, 'annotator': f'a{number}'})[0]
    except OSError as error:
      return error

  with ThreadPoolExecutor(count) as pool:
    assert Counter(pool.map(post, range(count))) == {200: count}


def test_frames_that_do_not_decode_whole_are_marked(tmp_path: pathlib.Path) -> None:
  save_frames(tmp_path / 'frames', SETS, (64, 48))
  broken = SETS.sets.frames[SETS.pairs[0].frame]
  file = tmp_path / 'frames' / broken
  file.write_bytes(file.read_bytes()[:-40])
  with served(tmp_path, SETS) as server:
    item = Client(server.port).next()['item']
    assert 'truncated' in item['neighbor']['damage'] and item['anchor']['damage'] == ''
    file.write_bytes((tmp_path / 'frames' / item['anchor']['path']).read_bytes())
    assert Client(server.port).next()['item']['neighbor']['damage'] == ''


def test_names_that_differ_in_capitals_only_are_refused(client: Client) -> None:
  client.answer(client.next()['item'])
  status, said = client.ask('/api/next?annotator=Ann')
  assert status == 400 and "differs from 'ann'" in said['error']


def test_an_anchor_called_bad_after_the_joint_verdict_is_a_joint_vote(
  server: ReviewServer, client: Client
) -> None:
  bad = {'annotator': 'ann', 'item': 'anchor:0', 'label': 'incorrect', 'round': 'individual'}
  assert client.next()['item']['anchor_round'] == 'individual'
  client.post(bad)
  for name in ('ann', 'bob'):
    good = {'annotator': name, 'item': 'anchor:0', 'label': 'correct', 'round': 'joint'}
    assert Client(server.port, name).post(good)[0] == 200
  pair = client.next()['item']
  assert (pair['id'], pair['anchor_item'], pair['anchor_round']) == ('pair:0', 'anchor:0', 'joint')
  assert client.post({**bad, 'round': 'joint'})[1]['item']['id'] == 'pair:3'


OUTSIDE = [
  '/frames/../secret.png',
  '/frames/..%2fsecret.png',
  '/frames/%2e%2e/secret.png',
  '/frames/0/../../x',
  '/frames/%2e%2e%2fsecret.png',
  '/frames//etc/passwd',
  '/frames/..\\secret.png',
  '/frames/999',
  '/frames/-1',
  '/frames/val/clip_00000/000010.png',
  '/frames/0%00',
  '/frames/',
  '/frames/%D9%A1',
  '/secret.png',
  '/../secret.png',
  '/answers.jsonl',
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
  ['evil.example:{port}', '127.0.0.1', '127.0.0.1:1', '192.0.2.7:{port}', '', 'localhost:{port}.e'],
)
@pytest.mark.parametrize('method', ['GET', 'POST'])
def test_requests_under_another_host_name_are_refused(
  server: ReviewServer, client: Client, method: str, host: str
) -> None:
  headers = {'Host': host.format(port=server.port), 'Content-Type': 'application/json'}
  assert client.send(method, '/api/session', json.dumps(PAIR).encode(), headers)[0] == 403
  assert server.log.answers == []


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
  asked = {'Origin': 'http://evil.example', 'Access-Control-Request-Method': 'POST'}
  status, _, headers = client.send('OPTIONS', '/api/answer', headers=asked)
  assert status == 501 and 'Access-Control-Allow-Origin' not in headers


def test_it_is_bound_to_loopback_and_a_port_in_use_is_refused(server: ReviewServer) -> None:
  assert server.server_address[0] == '127.0.0.1'
  given = (server.rounds, server.log, server.frames)
  for host, port, message in (
    ('127.0.0.1', server.port, f'cannot serve on 127.0.0.1, port {server.port}'),
    ('127.0.0.1', 70000, 'port 70000'),
    ('no.such.host.invalid', 0, 'cannot serve on no.such.host.invalid'),
  ):
    with pytest.raises(InputError, match=message):
      ReviewServer(*given, host, port)
