"""Tests the review server's responses, whom it refuses, and that it saves every answer at once."""

import json
import os
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from robustness.video import answers as answer_log
from robustness.video.candidates import Item
from robustness.video.review_rounds import ReviewRounds
from robustness.video.review_server import MAX_BODY, ReviewServer, is_loopback, is_own_host
from tests.cases import cases
from tests.refusals import refused
from tests.video.review_frames import candidates, path, save_frames
from tests.video.review_serving import ABOUT, PAIR, SETS, Client, served, written


def test_loopback_addresses():
  assert all(map(is_loopback, ('127.0.0.1', '127.3.2.1', '::1', 'localhost')))
  assert not any(map(is_loopback, ('0.0.0.0', '192.168.1.5', '::', 'evil.example')))


@cases(
  'header, bound, is_accepted',
  ('127.0.0.1:80', '127.0.0.1', True),
  ('LOCALHOST:80', '127.0.0.1', True),
  ('[::1]:80', '::1', True),
  ('127.0.0.1:81', '127.0.0.1', True),  # An SSH tunnel has another port.
  ('localhost', '127.0.0.1', True),  # Browsers leave out port 80.
  ('[::1]', '127.0.0.1', True),
  ('192.168.1.5:80', '127.0.0.1', False),
  ('192.0.2.7:80', '127.0.0.1', False),
  ('192.168.1.5:80', '0.0.0.0', True),
  ('192.168.1.5:80', '192.168.1.5', True),
  ('evil.example:80', '0.0.0.0', False),
  ('evil.example:80', '127.0.0.1', False),
  ('evil.example', '127.0.0.1', False),
  ('localhost:80.e', '127.0.0.1', False),
  (f'{socket.gethostname().lower()}:80', '0.0.0.0', True),
  ('lab.example:80', 'lab.example', True),
  (None, '127.0.0.1', False),
  ('', '0.0.0.0', False),
  ('', '', False),
  ('192.168.1.5', '', True),
)
def test_host_headers_that_a_server_bound_to_an_address_accepts(header, bound, is_accepted):
  assert is_own_host(header, bound) is is_accepted


def answered_items(client: Client, *objections: str) -> list[Any]:
  """Answers every item, `objections` with a reason against the pair, and returns the items."""
  items, item = [], client.next()['item']
  while item:
    items.append(item)
    item = client.answer(item, keep=item['id'] not in objections)['item']
  return items


@pytest.mark.slow
def test_two_annotators_review_3000_pairs_at_once(tmp_path, monkeypatch):
  monkeypatch.setattr(os, 'fsync', lambda _: None)  # Other tests check that a write waits for it.
  review = candidates(anchors=150, neighbors=20)
  objections = [f'pair:{number}' for number in range(0, 3000, 100)]
  with served(tmp_path, review) as server, ThreadPoolExecutor(2) as pool:

    def work(name):
      return [item['id'] for item in answered_items(Client(server.port, name), *objections)]

    # The joint round opens when both are done, so the faster one gets it in the second turn.
    turns = [list(pool.map(work, ('ann', 'bob'))) for _ in range(2)]
  expected = Counter([f'pair:{number}' for number in range(3000)] + objections)
  assert [Counter(first + second) for first, second in zip(*turns, strict=True)] == [expected] * 2
  plan, answers = answer_log.read(tmp_path / 'answers.jsonl', review.digest)
  assert len(answers) == 2 * (3000 + len(objections))
  rounds = ReviewRounds(review, plan, answers)
  assert all(rounds.is_settled(item) for item in review.items.values())


def test_an_answer_is_on_the_disk_before_the_next(server, client, monkeypatch, tmp_path):
  def fail_to_write(*_):
    raise OSError('No space left on device')

  with monkeypatch.context() as full_disk:
    full_disk.setattr(os, 'write', fail_to_write)
    client.refused('No space left', PAIR, 500)
  assert client.next()['item']['id'] == 'pair:0'
  events = []
  fsync, following = os.fsync, server.next_turn
  monkeypatch.setattr(os, 'fsync', lambda file: (fsync(file), events.append('fsync')))

  def next_turn(annotator):
    events.append(len(written(tmp_path)))
    return following(annotator)

  monkeypatch.setattr(server, 'next_turn', next_turn)
  assert client.post(PAIR)[1]['item']['id'] == 'pair:1'
  assert events == ['fsync', 1], 'the file has one answer when the next item is chosen'


def test_content_of_the_session_and_the_first_turn(client):
  status, session = client.ask('/api/session')
  assert status == 200 and session['annotator'] is None and session['pairs'] == 6
  named = [{'id': label, 'name': name} for label, name in enumerate(('cat', 'dog', 'bird'))]
  assert session['classes'] == named
  item = client.next()['item']
  assert (item['anchor']['path'], item['neighbor']['path']) == (path(0, 10), path(0, 9))
  assert item['offset'] == -1 and item['labels'] == named[:1]
  assert item['others'] == [] and item['answer'] is None and item['neighbor_labels'] is None


def test_others_answers_are_shown_in_the_joint_round_only(server):
  answered_items(Client(server.port, 'ann'), 'pair:3')
  items = answered_items(Client(server.port, 'bob'))
  visible = [(item['round'], [voter['annotator'] for voter in item['others']]) for item in items]
  assert visible == [('individual', [])] * 6 + [('joint', ['ann', 'bob'])]


def test_back_shows_the_earlier_answer_and_it_can_be_changed(client):
  client.answer(client.next()['item'], keep=False)
  status, turn = client.ask('/api/back?annotator=ann&before=pair:1')
  assert status == 200 and turn['item']['id'] == 'pair:0'
  assert turn['item']['answer']['reasons'] == ['motion']
  assert client.answer(turn['item'])['item']['id'] == 'pair:1'
  client.refused('no earlier answer', '/api/back?annotator=bob&before=')


def test_added_labels_are_shown_with_the_pairs_of_the_anchor(tmp_path):
  with served(tmp_path, SETS, {'densify': True}) as server:
    client = Client(server.port)
    pair = client.answer(client.next()['item'], added=[2])['item']
    assert [label['name'] for label in pair['labels']] == ['cat', 'bird']
    assert pair['neighbor_labels'] is None
    client.answer(pair)
  assert written(tmp_path)[1].shown == (0, 2)


def test_answers_about_outdated_labels_are_refused(tmp_path):
  with served(tmp_path, SETS, {'densify': True}) as server:
    ann, bob = (Client(server.port, name) for name in ('ann', 'bob'))
    pair = ann.answer(ann.next()['item'], added=[2])['item']
    bob.answer(bob.next()['item'])  # Bob adds no class, so the class 2 has no majority.
    before, fields = written(tmp_path), {**PAIR, 'item': pair['id']}
    ann.refused('labels of pair:0 have changed', {**fields, 'shown': [0, 2]}, 409)
    assert written(tmp_path) == before
    updated = ann.next()['item']
    labels = [label['id'] for label in updated['labels']]
    assert (updated['id'], labels) == (pair['id'], [0])
    ann.answer(updated, shown=labels)
  assert written(tmp_path)[-1].shown == (0,)


def test_other_annotators_and_names_differing_in_capitals_are_refused(client, tmp_path):
  client.answer(client.next()['item'])
  client.refused("differs from 'ann'", '/api/next?annotator=Ann')
  with served(tmp_path / 'for_ann', annotator='ann') as server:
    client = Client(server.port)
    assert client.ask('/api/session')[1]['annotator'] == 'ann'
    client.refused("started for 'ann'", {**PAIR, 'annotator': 'bob'})


def test_bad_answers_are_refused_and_not_written(client, tmp_path):
  before = (tmp_path / 'answers.jsonl').read_bytes()
  for change, message in (
    ({'annotator': '<script>'}, 'is not a name'),
    ({'item': 'pair:99'}, 'pair:0 to pair:5'),
    ({'item': None}, "no 'None' under review"),
    ({'similar': 'very'}, "similar is 'very'; valid"),
    ({'round': 'joint'}, 'not in the joint round'),
    ({'colour': 'red'}, "key of an answer is 'colour'"),
  ):
    client.refused(message, {**PAIR, **change})
  for added in ([0], [7], [2, -1]):
    correct = {**ABOUT, 'item': 'anchor:0', 'label': 'correct'}
    client.refused('ids of other classes', {**correct, 'added': added})
  assert (tmp_path / 'answers.jsonl').read_bytes() == before


@pytest.mark.parametrize('change', [{'neighbor': '../x'}, {'time': 'now'}])
def test_the_server_ignores_fields_that_it_sets(client, change, tmp_path):
  assert client.post({**PAIR, **change})[0] == 200
  (answer,) = written(tmp_path)
  assert SETS.items[answer.anchor, answer.neighbor] == Item('pair', 0) and answer.time > 1e9


JSON = {'Content-Type': 'application/json'}


def test_other_content_than_json_and_large_requests_are_refused(server):
  for body in (b'', b'{', b'[]', b'"pair:0"', b'\xff', b'[' * (MAX_BODY // 2)):
    status, content, _ = Client(server.port).send('POST', '/api/answer', body, **JSON)
    assert status == 400 and b'JSON' in content
  for length in (str(MAX_BODY + 1), '-1', 'many', '', '9' * 5000):  # The body is not read.
    sent = {**JSON, 'Content-Length': length}
    status, _, headers = Client(server.port).send('POST', '/api/answer', b'', **sent)
    assert status == 413 and headers['Connection'] == 'close'


def test_frames_are_served_and_cached_by_their_tag(client, tmp_path):
  item = client.next()['item']
  status, content, headers = client.send('GET', item['neighbor']['url'])
  folder = tmp_path / 'frames'
  assert status == 200 and headers['Content-Type'] == 'image/png'
  assert content == (folder / item['neighbor']['path']).read_bytes()
  condition = {'If-None-Match': headers['ETag']}
  status, content, _ = client.send('GET', item['neighbor']['url'], **condition)
  assert (status, content) == (304, b'')
  # A missing frame is an error for its request, and the server keeps running.
  (folder / SETS.sets.frames[0]).unlink()
  client.refused('could not be read', '/frames/0', 500)
  assert client.next()['item']['id'] == 'pair:0'


def test_a_window_with_an_old_state_does_not_overwrite_a_vote(server, client, tmp_path):
  first, second = client.next()['item'], Client(server.port).next()['item']
  assert first['answered'] is None and first == second
  assert client.post({**PAIR, 'replaces': first['answered']})[0] == 200
  changed = {**PAIR, 'similar': 'unsure'}
  for stale in (second['answered'], 4.0):
    client.refused('in another window', {**changed, 'replaces': stale}, 409)
  turn = client.ask('/api/back?annotator=ann&before=pair:1&round=individual')[1]['item']
  assert turn['id'] == 'pair:0' and turn['answer']['similar'] == 'similar'
  assert client.post({**changed, 'replaces': turn['answered']})[0] == 200
  of_bob = {**PAIR, 'annotator': 'bob', 'replaces': None}
  assert Client(server.port, 'bob').post(of_bob)[0] == 200
  similar = [stored.similar for stored in written(tmp_path)]
  assert similar == ['similar', 'unsure', 'similar']
  assert client.post({**PAIR, 'replaces': 'x'})[0] == 400


def test_damaged_frames_are_marked(tmp_path):
  save_frames(tmp_path / 'frames', SETS, (64, 48))
  file = tmp_path / 'frames' / SETS.sets.frames[SETS.pairs[0].frame]
  file.write_bytes(file.read_bytes()[:-40])
  with served(tmp_path) as server:
    item = Client(server.port).next()['item']
    assert 'truncated' in item['neighbor']['damage'] and item['anchor']['damage'] == ''
    file.write_bytes((tmp_path / 'frames' / item['anchor']['path']).read_bytes())
    assert Client(server.port).next()['item']['neighbor']['damage'] == ''


def test_calling_an_anchor_bad_after_the_joint_verdict_is_a_joint_vote(server, client):
  bad = {**ABOUT, 'item': 'anchor:0', 'label': 'incorrect'}
  assert client.next()['item']['anchor_round'] == 'individual'
  client.post(bad)
  for name in ('ann', 'bob'):
    good = {**bad, 'annotator': name, 'label': 'correct', 'round': 'joint'}
    assert Client(server.port, name).post(good)[0] == 200
  pair = client.next()['item']
  assert (pair['id'], pair['anchor_item'], pair['anchor_round']) == ('pair:0', 'anchor:0', 'joint')
  assert client.post({**bad, 'round': 'joint'})[1]['item']['id'] == 'pair:3'


UNSERVED_PATHS = r"""
/frames/../secret.png /frames/..%2fsecret.png /frames/%2e%2e/secret.png /frames/0/../../x
/frames/%2e%2e%2fsecret.png /frames//etc/passwd /frames/..\secret.png /frames/999 /frames/-1
/frames/val/clip_00000/000010.png /frames/0%00 /frames/ /frames/%D9%A1 /secret.png /../secret.png
/answers.jsonl /page/review.html /review.js/../server.py //review.html
"""


def test_no_other_file_is_served(client, tmp_path):
  (tmp_path / 'secret.png').write_bytes(b'secret')
  for address in UNSERVED_PATHS.split():
    status, content, _ = client.send('GET', address)
    assert status == 404 and b'secret.png' not in content, address
  frame = tmp_path / 'frames' / SETS.sets.frames[0]
  frame.unlink()  # A link out of the folder takes its place.
  frame.symlink_to(tmp_path / 'secret.png')
  status, content, _ = client.send('GET', '/frames/0')
  assert status == 404 and content != b'secret'


@cases('host', 'evil.example:{port}', '')
@pytest.mark.parametrize('method', ['GET', 'POST'])
def test_requests_under_another_host_name_are_refused(server, client, method, host):
  headers = {**JSON, 'Host': host.format(port=server.port)}
  assert client.send(method, '/api/session', json.dumps(PAIR).encode(), **headers)[0] == 403
  assert server.log.answers == []


@cases(
  'header, values',
  ('Content-Type', ['text/plain', 'application/x-www-form-urlencoded', '']),
  ('Origin', ['http://evil.example', 'null', 'http://127.0.0.1:1']),
  ('Sec-Fetch-Site', ['cross-site', 'same-site']),
)
def test_answers_of_another_site_are_refused(client, header, values, tmp_path):
  before = (tmp_path / 'answers.jsonl').read_bytes()
  for value in values:
    status, _ = client.post(PAIR, **{header: value})
    assert status == 403 and (tmp_path / 'answers.jsonl').read_bytes() == before


def test_pairs_and_frames_are_served_to_the_page_and_not_to_another_site(server, client):
  for address in ('/api/next?annotator=ann', '/api/session', '/frames/0', '/review.js'):
    for site, status in (('cross-site', 403), ('same-site', 403), ('same-origin', 200)):
      assert client.send('GET', address, **{'Sec-Fetch-Site': site})[0] == status
  assert client.send('GET', '/', **{'Sec-Fetch-Site': 'cross-site'})[0] == 200
  for name in ('127.0.0.1', 'localhost', '[::1]'):
    host = f'{name}:{server.port}'
    headers = {'Host': host, 'Origin': f'http://{host}', 'Sec-Fetch-Site': 'same-origin'}
    assert client.post(PAIR, **headers)[0] == 200


def test_the_page_loads_nothing_from_other_hosts(client):
  for address in ('/', '/review.js', '/review.css'):
    status, content, headers = client.send('GET', address)
    is_comment = b'// '
    assert status == 200 and b'//' not in content.replace(is_comment, b''), 'no absolute address'
    assert "default-src 'none'" in headers['Content-Security-Policy']
    assert headers['X-Content-Type-Options'] == 'nosniff'
    assert headers['Cross-Origin-Resource-Policy'] == 'same-origin'
  # The server allows neither other methods nor requests from other origins.
  preflight = {'Origin': 'http://evil.example', 'Access-Control-Request-Method': 'POST'}
  status, _, headers = client.send('OPTIONS', '/api/answer', **preflight)
  assert status == 501 and 'Access-Control-Allow-Origin' not in headers


def test_the_server_binds_to_loopback_and_refuses_a_port_in_use(server):
  assert server.server_address[0] == '127.0.0.1'
  arguments = (server.rounds, server.log, server.frames, '127.0.0.1', server.port)
  refused(f'cannot serve on 127.0.0.1, port {server.port}', ReviewServer, *arguments)
