"""The web server of a review: the page, the frames, and the answers, on this machine only.

The standard library's server is enough: a handful of annotators, requests of a few hundred bytes,
and one process that owns the file of answers. A framework would be a dependency for five routes.
"""

from __future__ import annotations

import importlib.resources
import json
import re
import socket
import time
import urllib.parse
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from robustness.core import json_files
from robustness.core.errors import InputError, nearest
from robustness.video import review_access as access
from robustness.video import review_presentation as presentation
from robustness.video.review_answer_log import AnswerLog
from robustness.video.review_answers import INDIVIDUAL, ROUNDS, Answer, check_name
from robustness.video.review_candidates import ANCHOR, Item
from robustness.video.review_frame_folder import FrameFolder
from robustness.video.review_rounds import UNCHECKED, OutdatedAnswerError, Rounds

MAX_BODY = 64 * 1024  # bytes of a request
PAGE: Mapping[str, tuple[str, str]] = {
  '/': ('review.html', 'text/html; charset=utf-8'),
  '/review.css': ('review.css', 'text/css; charset=utf-8'),
  '/review.js': ('review.js', 'text/javascript; charset=utf-8'),
}


class ReviewServer(ThreadingHTTPServer):
  """Serves one review until it is shut down; `server_address` holds the port it took."""

  daemon_threads = True
  allow_reuse_address = True
  request_queue_size = 1024  # connections that wait to be taken; the system's limit may be lower

  def __init__(
    self,
    rounds: Rounds,
    log: AnswerLog,
    frames: FrameFolder,
    host: str = '127.0.0.1',
    port: int = 0,
    annotator: str | None = None,
  ):
    """Binds the port.

    Args:
      rounds: the review, with the answers of `log` taken in.
      log: where answers go.
      frames: the frames of `rounds.candidates`.
      host: address to bind to; others than loopback can be reached from the network.
      port: 0 takes a free one.
      annotator: who answers; None lets the page ask.

    Raises:
      InputError: the host or port cannot be bound.
    """
    self.rounds, self.log, self.frames, self.annotator = rounds, log, frames, annotator
    self.host = host
    self.address_family = socket.AF_INET6 if ':' in host else socket.AF_INET
    try:
      super().__init__((host, port), _Handler)
    except (OSError, OverflowError) as error:
      raise InputError(
        f'cannot serve on {host}, port {port} ({error}): give another --port (0 '
        'takes a free one) or --host.'
      ) from error

  @property
  def port(self) -> int:
    """The port."""
    return int(self.server_address[1])

  @property
  def url(self) -> str:
    """The page's address."""
    return f'http://{f"[{self.host}]" if ":" in self.host else self.host}:{self.port}/'

  def session(self) -> dict[str, Any]:
    """Returns what the page asks first."""
    return presentation.session(self.rounds, self.annotator)

  def next_turn(self, annotator: str) -> dict[str, Any]:
    """Returns what an annotator judges next."""
    self._check_annotator(annotator)
    return self._turn(annotator, self.rounds.next(annotator))

  def earlier_turn(self, annotator: str, before: str, stage: str = INDIVIDUAL) -> dict[str, Any]:
    """Returns what an annotator judged before the item of that name (the last if it is empty).

    Args:
      annotator: whose answers.
      before: the item that is shown.
      stage: the round in which it is shown.
    """
    if stage not in ROUNDS:
      raise InputError(f'unknown round {stage!r}: {nearest(stage, ROUNDS)}.')
    item = self.rounds.candidates.item(before) if before else None
    choice = self.rounds.previous(annotator, item, stage)
    if choice is None:
      where = f' in the {stage} round' if before else ''
      raise InputError(f'there is no earlier answer of yours{where}.')
    return self._turn(annotator, choice)

  def take(self, posted: Mapping[str, Any]) -> dict[str, Any]:
    """Writes an answer to the disk, then returns what the annotator judges next."""
    said = dict(posted)
    replaces = said.pop('replaces', UNCHECKED)
    if replaces not in (None, UNCHECKED) and type(replaces) not in (int, float):
      raise InputError(f'replaces = {replaces!r}: give the time of an answer, or null.')
    answer = self._answer(said)
    self.rounds.give(answer, self.log.append, replaces)
    return self.next_turn(answer.annotator)

  def _turn(self, annotator: str, choice: tuple[Item, str] | None) -> dict[str, Any]:
    """Returns a turn in which frames that do not decode are marked."""
    turn = presentation.turn(self.rounds, annotator, choice)
    for role in ('anchor', 'neighbor'):
      frame = (turn['item'] or {}).get(role)
      if frame:
        frame['damage'] = self.frames.damage(frame.pop('index'))
    return turn

  def _answer(self, posted: Mapping[str, Any]) -> Answer:
    said = dict(posted)
    item = self.rounds.candidates.item(str(said.pop('item', '')))
    anchor, neighbor = self.rounds.candidates.paths(item)
    shown = presentation.shown_labels(self.rounds, item)
    said = {
      **said,
      'anchor': anchor,
      'neighbor': neighbor,
      'shown': list(shown),
      'time': round(time.time(), 3),
    }
    answer = Answer.from_json(said)
    self._check_annotator(answer.annotator)
    known = self.rounds.candidates.class_names
    wrong = [label for label in answer.added if label not in known or label in shown]
    if item.kind == ANCHOR and wrong:
      raise InputError(f'added = {wrong}: give ids of other classes than its labels.')
    return answer

  def _check_annotator(self, name: str) -> None:
    if self.annotator is not None and name != self.annotator:
      raise InputError(
        f'annotator {name!r} cannot answer here: this server was started for {self.annotator!r}.'
      )
    for known in self.rounds.annotators():
      if known != name and known.casefold() == name.casefold():
        raise InputError(
          f'annotator {name!r} differs from {known!r}, who has answered, only in '
          f'capitals: give {known!r}, or a name that differs more.'
        )


class _RequestError(Exception):
  """A request that is answered with an error."""

  def __init__(self, status: HTTPStatus, message: str):
    super().__init__(message)
    self.status = status


class _Handler(BaseHTTPRequestHandler):
  """One connection of a browser."""

  server: ReviewServer
  protocol_version = 'HTTP/1.1'
  server_version, sys_version = 'review', ''
  timeout = 60  # seconds a silent connection is kept
  wbufsize = -1  # an answer leaves in one piece

  def do_GET(self) -> None:
    """Answers the page's questions and serves its files and frames."""
    self._guarded(self._get)

  def do_POST(self) -> None:
    """Takes an answer."""
    self._guarded(self._post)

  def _guarded(self, respond: Callable[[], None]) -> None:
    try:
      if not access.is_own_host(self.headers.get('Host'), self.server.host, self.server.port):
        raise _RequestError(HTTPStatus.FORBIDDEN, 'The Host header does not name this server.')
      if self.path != '/' and not access.is_own_site(self.headers):
        raise _RequestError(HTTPStatus.FORBIDDEN, 'Only the page itself may ask this.')
      respond()
    except _RequestError as refused:
      self._error(refused.status, str(refused))
    except OutdatedAnswerError as error:
      self._error(HTTPStatus.CONFLICT, str(error))
    except InputError as error:
      self._error(HTTPStatus.BAD_REQUEST, str(error))
    except (ConnectionError, TimeoutError):  # the browser has gone
      self.close_connection = True
    except OSError as error:
      self._error(HTTPStatus.INTERNAL_SERVER_ERROR, f'It could not be read or written: {error}')

  def _get(self) -> None:
    url = urllib.parse.urlsplit(self.path)
    query = {key: values[-1] for key, values in urllib.parse.parse_qs(url.query).items()}
    if url.path in PAGE:
      name, kind = PAGE[url.path]
      content = importlib.resources.files('robustness.video').joinpath('page', name).read_bytes()
      self._send(HTTPStatus.OK, content, kind)
    elif frame := re.fullmatch(r'/frames/([0-9]{1,9})', url.path):
      self._frame(int(frame[1]))
    elif url.path == '/api/session':
      self._json(self.server.session())
    elif url.path == '/api/next':
      self._json(self.server.next_turn(check_name(query.get('annotator'))))
    elif url.path == '/api/back':
      name = check_name(query.get('annotator'))
      stage = query.get('round', INDIVIDUAL)
      self._json(self.server.earlier_turn(name, query.get('before', ''), stage))
    else:
      raise _RequestError(HTTPStatus.NOT_FOUND, 'There is nothing at this address.')

  def _post(self) -> None:
    length = self.headers.get('Content-Length', '')
    if not (length.isascii() and length.isdigit() and len(length) < 10) or int(length) > MAX_BODY:
      raise _RequestError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f'Give a Content-Length of at most {MAX_BODY}.'
      )
    body = self.rfile.read(int(length))
    if urllib.parse.urlsplit(self.path).path != '/api/answer':
      raise _RequestError(HTTPStatus.NOT_FOUND, 'There is nothing at this address.')
    if not access.is_own_post(self.headers):
      raise _RequestError(HTTPStatus.FORBIDDEN, 'Only the page itself may send answers.')
    self._json(self.server.take(_object(body)))

  def _frame(self, index: int) -> None:
    try:
      frame = self.server.frames.read(index)
    except InputError as error:
      raise _RequestError(HTTPStatus.NOT_FOUND, str(error)) from error
    fresh = self.headers.get('If-None-Match') == frame.tag
    status = HTTPStatus.NOT_MODIFIED if fresh else HTTPStatus.OK
    self._send(status, b'' if fresh else frame.content, frame.content_type, frame.tag)

  def _json(self, value: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> None:
    self._send(status, json.dumps(value).encode(), 'application/json')

  def _error(self, status: HTTPStatus, message: str) -> None:
    self.close_connection = True  # what the request still holds is not read
    self._json({'error': message}, status)

  def _send(self, status: HTTPStatus, content: bytes, kind: str, tag: str = '') -> None:
    self.send_response(status)
    facts = {
      'Content-Type': kind,
      'Cache-Control': 'no-cache' if tag else 'no-store',
      **access.HEADERS,
    }
    if tag:
      facts['ETag'] = tag
    if status != HTTPStatus.NOT_MODIFIED:
      facts['Content-Length'] = str(len(content))
    if self.close_connection:
      facts['Connection'] = 'close'
    for name, value in facts.items():
      self.send_header(name, value)
    self.end_headers()
    self.wfile.write(content)

  def log_message(self, format: str, *args: Any) -> None:
    """Keeps quiet: the answers are the log."""


def _object(body: bytes) -> Mapping[str, Any]:
  return json_files.parse(body, 'the request', advice='Send an object of JSON.')
