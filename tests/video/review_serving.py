"""Runs a review server in a thread, and has a client that sends what the page sends."""

import contextlib
import http.client
import json
import pathlib
import threading
import weakref
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from robustness.video import answers
from robustness.video.answers import Answer, AnswerLog
from robustness.video.candidates import Candidates, ReviewFrames
from robustness.video.review_rounds import ReviewRounds
from robustness.video.review_server import ReviewServer
from tests.video.review_frames import candidates, save_frames, verdict

SETS = candidates()
ABOUT = {'annotator': 'ann', 'item': 'pair:0', 'round': 'individual'}
PAIR = {**ABOUT, **verdict('pair', True)}
"""An answer as the page sends it."""


class Client:
  """One annotator's connection."""

  def __init__(self, port: int, annotator: str = 'ann'):
    self.annotator, self._port = annotator, port
    self._connection = http.client.HTTPConnection('127.0.0.1', port, timeout=30)
    weakref.finalize(self, self._connection.close)

  def send(
    self, method: str, path: str, body: bytes | None = None, **headers: str
  ) -> tuple[int, bytes, Any]:
    """Returns status, body and headers."""
    self._connection.request(method, path, body, headers)
    response = self._connection.getresponse()
    return response.status, response.read(), response.headers

  def ask(self, path: str) -> tuple[int, Any]:
    """Returns the status and the JSON of a GET request."""
    status, body, _ = self.send('GET', path)
    return status, json.loads(body)

  def next(self) -> dict[str, Any]:
    """Returns the annotator's next turn; `item` is what to answer, None at the end."""
    status, turn = self.ask(f'/api/next?annotator={self.annotator}')
    assert status == 200, turn
    return turn

  def post(self, fields: Any, **headers: str) -> tuple[int, Any]:
    """Sends an answer; returns the status and the next turn, or the error."""
    headers_sent = {'Content-Type': 'application/json', **headers}
    status, body, _ = self.send('POST', '/api/answer', json.dumps(fields).encode(), **headers_sent)
    return status, json.loads(body)

  def refused(self, message: str, sent: str | Mapping[str, Any], status: int = 400) -> None:
    """Checks that a GET of an address, or an answer, is refused with this status and message."""
    received, fields = self.ask(sent) if isinstance(sent, str) else self.post(sent)
    assert received == status and message in fields['error'], fields

  def answer(self, item: Mapping[str, Any], keep: bool = True, **fields: Any) -> dict[str, Any]:
    """Answers an item and returns the next turn."""
    about = {'annotator': self.annotator, 'item': item['id'], 'round': item['round']}
    status, turn = self.post({**about, **verdict(item['kind'], keep), **fields})
    assert status == 200, turn
    return turn


@contextlib.contextmanager
def served(
  folder: pathlib.Path,
  review: Candidates = SETS,
  plan: Mapping[str, Any] = MappingProxyType({}),
  annotator: str | None = None,
) -> Iterator[ReviewServer]:
  """Serves a review of made frames; its answers are in `folder`/answers.jsonl."""
  if not (folder / 'frames').exists():
    save_frames(folder / 'frames', review)
  frames = ReviewFrames(folder / 'frames', review.sets.frames)
  with AnswerLog(folder / 'answers.jsonl', review.digest, plan) as log:
    rounds = ReviewRounds(review, log.plan, log.answers)
    with ReviewServer(rounds, log, frames, annotator=annotator) as server:
      thread = threading.Thread(target=server.serve_forever, args=(0.02,))
      thread.start()
      try:
        yield server
      finally:
        server.shutdown()
        thread.join()


def written(folder: pathlib.Path, review: Candidates = SETS) -> list[Answer]:
  """Returns the answers of a review that was served in `folder`."""
  return answers.read(folder / 'answers.jsonl', review.digest)[1]
