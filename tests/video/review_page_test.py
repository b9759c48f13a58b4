"""Tests the review page in a headless browser: a review by keys alone, and what can fail."""

import contextlib
import pathlib
from typing import Any

import pytest

from robustness.models import label_space
from robustness.video import answers as answer_log
from robustness.video.answers import Answer
from robustness.video.candidates import Candidates, Item
from robustness.video.review_rounds import ReviewRounds
from tests.browser import chromium
from tests.video.review_frames import save_frames
from tests.video.review_serving import SETS, served, written

pytestmark = pytest.mark.slow
PAIRS = [Item('pair', number) for number in range(6)]


@pytest.fixture(scope='module')
def browser():
  yield from chromium()


class Page:
  """One annotator's window, driven by keys; what the console complains about fails the test."""

  def __init__(self, browser: Any, url: str, name: str = ''):
    self.window = browser.new_context(viewport={'width': 1200, 'height': 800}).new_page()
    self.complaints: list[str] = []
    self.addresses: set[str] = set()
    self.window.on('pageerror', lambda error: self.complaints.append(str(error)))
    self.window.on('console', lambda message: self.complaints.append(message.text))
    self.window.on('request', lambda request: self.addresses.add(request.url))
    self.window.set_default_timeout(10_000)
    self.window.goto(url)
    if name:
      self.window.wait_for_selector('#name:visible')
      self.keys(*name, 'Enter')

  def keys(self, *keys: str) -> None:
    for key in keys:
      self.window.keyboard.press(key)

  def shows(self, item: str) -> 'Page':
    self.window.wait_for_selector(f'body[data-item="{item}"][data-busy="false"]')
    return self

  def answers(self, item: str, *keys: str) -> None:
    self.shows(item).keys(*keys)

  def text(self, selector: str) -> str:
    return self.window.inner_text(selector)

  def close(self) -> None:
    assert self.complaints == []
    self.window.context.close()


@contextlib.contextmanager
def opened(browser: Any, folder: pathlib.Path, *arguments: Any, first='pair:0', annotator=None):
  """Serves a review and opens its page, which asks who answers unless the server knows."""
  with served(folder, *arguments, annotator=annotator) as server:
    page = Page(browser, server.url, '' if annotator else 'ann').shows(first)
    yield page
    page.close()


def pick(answers: list[Answer], annotator: str, item: Item, stage: str = 'individual') -> Answer:
  by = {(a.annotator, a.round, SETS.items[a.anchor, a.neighbor]): a for a in answers}
  return by[annotator, stage, item]


def test_two_annotators_review_by_keys_in_both_rounds(browser, tmp_path):
  with served(tmp_path) as server:
    ann, bob = (Page(browser, server.url, name) for name in ('ann', 'bob'))
    ann.answers('pair:0', 'a')
    bob.answers('pair:0', '1', 's', 'Enter')
    bob.shows('pair:1')
    ann.answers('pair:1', '1', 'm', 'l', 'Enter')
    ann.answers('pair:2', '1', 'f', 'Enter')
    for number in (3, 4, 5):
      ann.answers(f'pair:{number}', 'a')
    assert ann.shows('none').text('#verdict').startswith('Nothing for you just now')
    bob.answers('pair:1', 'a')
    bob.answers('pair:2', '3', 'u', 'Enter')
    for number in (3, 4, 5):
      bob.answers(f'pair:{number}', 'a')
    bob.shows('pair:1')
    assert bob.text('#round') == 'joint round'
    assert bob.text('#others').splitlines() == [
      'ann (individual): label correct, dissimilar, motion, blur',
      'bob (individual): label correct, similar',
    ]
    bob.answers('pair:1', 'Enter')  # his own answer is still marked
    bob.answers('pair:2', '1', 'd', 'o', 'Enter')
    ann.keys('Enter')
    ann.answers('pair:1', 'a')
    ann.answers('pair:2', 'Enter')
    assert ann.shows('none').text('#verdict').startswith('All done')
    for page in (ann, bob):
      page.close()
      assert all(a.startswith(server.url) or a == 'data:,' for a in page.addresses)
  answers = written(tmp_path)
  assert len(answers) == 16
  assert pick(answers, 'ann', PAIRS[1]).reasons == ('motion', 'blur')
  assert pick(answers, 'ann', PAIRS[2]).feature
  unsure = pick(answers, 'bob', PAIRS[2])
  assert (unsure.label, unsure.similar) == ('unsure', 'unsure')
  rounds = ReviewRounds(SETS, *answer_log.read(tmp_path / 'answers.jsonl', SETS.digest))
  votes = [[vote.accepts for vote in rounds.ballot(pair).votes] for pair in PAIRS[:3]]
  assert votes == [[True, True], [True, True], [False, False]]


def test_incomplete_answers_are_not_sent_and_the_page_says_what_is_missing(browser, tmp_path):
  with opened(browser, tmp_path) as page:
    for keys in (('Enter',), ('1', 'Enter'), ('d', 'Enter')):
      page.keys(*keys)
      assert page.window.get_attribute('body', 'data-item') == 'pair:0'
      assert page.window.is_disabled('button[data-key="Enter"]')
    assert written(tmp_path) == []
    page.keys('b', 's')  # similar takes the reason away
    assert page.window.get_attribute('button[data-key="b"]', 'aria-pressed') == 'false'
    page.keys('Enter')
    page.shows('pair:1')
    assert pick(written(tmp_path), 'ann', PAIRS[0]).accepts
    page.keys('Enter')
    assert 'whether the label is correct (1, 2, 3), and whether the pair' in page.text('#error')
    page.keys('1', 'd')
    assert page.text('#error') == ''
    page.keys('Enter')
    assert page.text('#error').startswith('Not saved. Say what changed (M, B, L, O)')
    page.keys('m', 'Enter')
    assert page.shows('pair:2').text('#error') == ''


def test_a_stale_window_reports_the_other_answer(browser, tmp_path):
  with served(tmp_path, annotator='ann') as server:
    page, stale = (Page(browser, server.url).shows('pair:0') for _ in range(2))
    page.keys('a')
    page.shows('pair:1')
    stale.keys('1', 'u', 'Enter')
    assert 'ann has answered pair:0 in another window' in stale.shows('pair:1').text('#error')
    stale.keys('a')
    assert stale.shows('pair:2').text('#error') == ''
    page.close()
  assert [answer.accepts for answer in written(tmp_path)] == [True, True]


@pytest.mark.parametrize('densify', [True, False])
def test_the_button_that_saves_is_always_in_sight(browser, tmp_path, densify):
  of_vid = Candidates(SETS.sets, dict(enumerate(label_space.get('imagenet_vid').class_names)))
  save_frames(tmp_path / 'frames', of_vid, (640, 360))
  first = 'anchor:0' if densify else 'pair:0'
  with opened(browser, tmp_path, of_vid, {'densify': densify}, first=first) as page:
    for size in ((1280, 800), (1280, 640), (1024, 600)):
      page.window.set_viewport_size({'width': size[0], 'height': size[1]})
      for selector in ('#steps button[data-key="Enter"]', '#error'):
        box = page.window.locator(selector).bounding_box()
        assert box['y'] >= 0 and box['y'] + box['height'] <= size[1], (size, selector)


def test_going_back_and_a_bad_anchor(browser, tmp_path):
  with opened(browser, tmp_path, SETS, {'annotators_per_pair': 1}, annotator='ann') as page:
    page.answers('pair:0', 'a')
    page.answers('pair:1', 'Backspace')
    pressed = page.shows('pair:0').window.get_attribute('button[data-key="s"]', 'aria-pressed')
    assert pressed == 'true'
    page.keys('d', 'o', 'Enter')
    page.answers('pair:1', 'x', 'Enter')
    page.shows('pair:3')
    assert 'individual 1 of 4 · joint 0 of 2' in page.text('#progress')
  answers = written(tmp_path)
  assert pick(answers, 'ann', PAIRS[0]).reasons == ('other',)
  assert pick(answers, 'ann', Item('anchor', 0)).label == 'incorrect'


def test_labels_are_densified_by_typing_names(browser, tmp_path):
  with opened(browser, tmp_path, SETS, {'densify': True}, first='anchor:0') as page:
    assert not page.window.is_visible('#right')
    page.keys(*'bi', 'Enter', *'do', 'Enter', *'do', 'Enter', '1', 'Enter')
    assert page.shows('pair:0').text('#labels') == 'label: cat, bird'
  answer = pick(written(tmp_path), 'ann', Item('anchor', 0))
  assert (answer.label, answer.added, answer.shown) == ('correct', (2,), (0,))


def test_both_frames_have_one_scale_and_flicker_in_one_place(browser, tmp_path):
  save_frames(tmp_path / 'frames', SETS, (320, 180))
  with opened(browser, tmp_path) as page:
    locators = [page.window.locator(f'#{side} img') for side in ('left', 'right')]
    boxes = [locator.bounding_box() for locator in locators]
    assert len({(box['width'], box['height']) for box in boxes}) == 1
    assert boxes[0]['width'] / boxes[0]['height'] == pytest.approx(320 / 180, abs=0.01)
    assert boxes[1]['x'] >= boxes[0]['x'] + boxes[0]['width']
    page.keys('Space')
    assert len({tuple(locator.bounding_box().items()) for locator in locators}) == 1
    for side, other in (('left', 'right'), ('right', 'left')):
      page.window.wait_for_selector(f'#{side}:not(.hid)')
      page.window.wait_for_selector(f'#{other}.hid', state='attached')
    page.keys('Space')
    assert page.window.locator('#stage.flicker').count() == 0


def test_the_page_reports_a_stopped_server_and_keeps_the_answer(browser, tmp_path):
  with served(tmp_path) as server:
    page = Page(browser, server.url, 'ann').shows('pair:0')
    page.keys('1', 'b')
    with page.window.context.expect_event('requestfailed') as _:
      page.window.context.set_offline(True)
      page.keys('Enter')
    page.shows('pair:0')
    assert 'The server does not answer' in page.text('#error')
    page.window.context.set_offline(False)
    page.keys('Enter')
    page.shows('pair:1')
    assert page.text('#error') == ''
    assert [answer.reasons for answer in written(tmp_path)] == [('background',)]


def test_a_frame_that_cannot_be_shown_is_named(browser, tmp_path):
  save_frames(tmp_path / 'frames', SETS)
  broken = SETS.sets.frames[SETS.pairs[0].frame]
  (tmp_path / 'frames' / broken).write_bytes(b'no picture')
  with served(tmp_path) as server:
    page = Page(browser, server.url, 'ann').shows('pair:0')
    assert f'{broken} cannot be shown' in page.text('#error')
    assert not page.window.is_visible('#done')
    page.answers('pair:0', '1', 'o', 'Enter')
    assert page.shows('pair:1').text('#error') == ''


def test_a_name_with_other_characters_is_refused_on_the_page(browser, tmp_path):
  with served(tmp_path) as server:
    page = Page(browser, server.url, '<b>')
    page.window.wait_for_selector('#error:not(:empty)')
    assert 'is not a name' in page.text('#error')
    page.window.fill('#annotator', 'ann')
    page.keys('Enter')
    assert page.shows('pair:0').text('#error') == ''
