"""A review server in a thread of its own, and a client that speaks to it as the page does."""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from robustness.video.answers import AnswerLog
from robustness.video.candidates import Candidates, ReviewFrames
from robustness.video.review_rounds import ReviewRounds
from robustness.video.review_server import ReviewServer
from tests.video.review_frames import candidates, save_frames

SETS = candidates()
PAIR = {
  'annotator': 'ann',
  'item': 'pair:0',
  'round': 'individual',
  'label': 'correct',
  'similar': 'similar',
}
"""An answer as the page sends it."""


class Client:
  """One annotator's connection."""

  def __init__(self, port: int, annotator: str = 'ann'):
    self.annotator, self._port = annotator, port
    self._connection = http.client.HTTPConnection('127.0.0.1', port, timeout=30)
    weakref.finalize(self, self._connection.close)

  def send(
    self,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
  ) -> tuple[int, bytes, Any]:
    """Returns status, body and headers."""
    self._connection.request(method, path, body, dict(headers or {}))
    response = self._connection.getresponse()
    return response.status, response.read(), response.headers

  def ask(self, path: str) -> tuple[int, Any]:
    status, body, _ = self.send('GET', path)
    return status, json.loads(body)

  def next(self) -> dict[str, Any]:
    status, turn = self.ask(f'/api/next?annotator={self.annotator}')
    assert status == 200, turn
    return turn

  def post(self, said: Any, **headers: str) -> tuple[int, Any]:
    given = {'Content-Type': 'application/json', **headers}
    status, body, _ = self.send('POST', '/api/answer', json.dumps(said).encode(), given)
    return status, json.loads(body)

  def answer(self, item: Mapping[str, Any], keep: bool = True, **said: Any) -> dict[str, Any]:
    """Answers an item and returns the next turn."""
    pair = item['kind'] == 'pair'
    usual: dict[str, Any] = {'label': 'correct' if keep or pair else 'incorrect'}
    if pair and keep:
      usual['similar'] = 'similar'
    elif pair:
      usual |= {'similar': 'dissimilar', 'reasons': ['motion']}
    about = {'annotator': self.annotator, 'item': item['id'], 'round': item['round']}
    status, turn = self.post({**about, **usual, **said})
    assert status == 200, turn
    return turn


@contextlib.contextmanager
def served(
  folder: pathlib.Path,
  of: Candidates,
  plan: Mapping[str, Any] | None = None,
  annotator: str | None = None,
) -> Iterator[ReviewServer]:
  """Serves a review of made frames; its answers are in `folder`/answers.jsonl."""
  frames = folder / 'frames'
  if not frames.exists():
    save_frames(frames, of)
  with AnswerLog(folder / 'answers.jsonl', of.digest, plan or {}) as log:
    rounds = ReviewRounds(of, log.plan, log.answers)
    with ReviewServer(
      rounds, log, ReviewFrames(frames, of.sets.frames), annotator=annotator
    ) as server:
      thread = threading.Thread(target=server.serve_forever, args=(0.02,))
      thread.start()
      try:
        yield server
      finally:
        server.shutdown()
        thread.join()
