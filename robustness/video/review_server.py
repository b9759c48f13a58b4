"""Web server of a review, by default for this machine only: the page, the frames, the answers.

The standard library's server is sufficient for a few annotators, requests of some hundred bytes and
one process that writes the file of answers; a framework would be a dependency for five routes.
"""

import importlib.resources
import ipaddress
import json
import re
import socket
import time
import urllib.parse
from collections.abc import Mapping
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.video import answers
from robustness.video.answers import INDIVIDUAL, JOINT, Answer, AnswerLog, check_name
from robustness.video.candidates import ANCHOR, PAIR, Item, Pair, ReviewFrames
from robustness.video.review_rounds import UNCHECKED, OutdatedAnswerError, ReviewRounds

MAX_BODY = 64 * 1024
"""Most bytes in the body of a request."""
PAGE: Mapping[str, tuple[str, str]] = {
  '/': ('review.html', 'text/html; charset=utf-8'),
  '/review.css': ('review.css', 'text/css; charset=utf-8'),
  '/review.js': ('review.js', 'text/javascript; charset=utf-8'),
}
"""{path of a URL: (file in the folder `page`, MIME type)}."""
HEADERS: Mapping[str, str] = {
  'Content-Security-Policy': "default-src 'none'; img-src 'self' data:; script-src 'self'; "
  "style-src 'self'; connect-src 'self'; base-uri 'none'; "
  "form-action 'none'; frame-ancestors 'none'",
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
}
"""Headers of every response."""
Plain = dict[str, object]
"""A JSON object."""


class ReviewServer(ThreadingHTTPServer):
  """HTTP server on which annotators review neighbor sets (an anchor frame with similar frames).

  It serves the review page and the images, and stores the answers.
  """

  daemon_threads = True
  allow_reuse_address = True
  request_queue_size = 1024  # connections that wait to be taken; the system's limit may be lower

  def __init__(
    self,
    rounds: ReviewRounds,
    log: AnswerLog,
    frames: ReviewFrames,
    host: str = '127.0.0.1',
    port: int = 0,
    annotator: str | None = None,
  ):
    """Binds the server to a port; call `serve_forever` to answer requests.

    Args:
      rounds: state of the review, with the answers of `log`.
      log: file that new answers are appended to.
      frames: image files of the frames.
      host: address to bind to; addresses other than loopback can be reached from the network.
      port: port to bind to; 0 takes a free port.
      annotator: the only annotator who may answer; None lets the page ask for a name.
    """
    self.rounds, self.log, self.frames, self.annotator = rounds, log, frames, annotator
    self.candidates = rounds.candidates
    self.host = host
    self.address_family = socket.AF_INET6 if ':' in host else socket.AF_INET
    try:
      super().__init__((host, port), _Handler)
    except (OSError, OverflowError) as error:
      problem = f'cannot serve on {host}, port {port} ({error})'
      raise InputError(f'{problem}: give another --port (0 takes a free one) or --host.') from error

  @property
  def port(self) -> int:
    """The port that the server listens on."""
    return int(self.server_address[1])

  @property
  def url(self) -> str:
    """The address of the page."""
    is_ipv6 = ':' in self.host
    return f'http://{f"[{self.host}]" if is_ipv6 else self.host}:{self.port}/'

  def session(self) -> Plain:
    """Returns the data that the review page loads when it is opened, as a JSON object.

    Returns:
      A dictionary with the keys

      * 'annotator': the only annotator who may answer, or None;
      * 'annotators': names of all who have answered;
      * 'classes': ids and names of the classes;
      * 'reasons': possible reasons why the frames of a pair differ;
      * 'pairs', 'anchors': numbers of pairs and anchors under review.
    """
    return {
      'annotator': self.annotator,
      'annotators': self.rounds.annotators(),
      'classes': self._labels_with_names(sorted(self.candidates.class_names)),
      'reasons': list(answers.REASONS),
      'pairs': len(self.candidates.pairs),
      'anchors': len(self.candidates.sets.anchors),
    }

  def next_turn(self, annotator: str) -> Plain:
    """Returns what an annotator should judge next, as a JSON object for the review page.

    Returns:
      `{'item': ..., 'progress': ...}`: the next anchor or pair (None if there is nothing to judge),
      and the counts of `ReviewRounds.progress`.
    """
    self._check_annotator(annotator)
    return self._turn_fields(annotator, self.rounds.next(annotator))

  def earlier_turn(self, annotator: str, before: str, review_round: str) -> Plain:
    """Returns an anchor or pair that an annotator has answered, to correct the answer.

    Args:
      annotator: name of the annotator.
      before: name of the item (anchor or pair) on the page, such as 'pair:17'; the item answered
        before it is returned. '' returns the last answered item.
      review_round: the round of the answers, 'individual' or 'joint'.

    Returns:
      `{'item': the anchor or pair, 'progress': counts of given and needed answers}`.
    """
    choice('round', review_round, answers.ROUNDS)
    item = self.candidates.item(before) if before else None
    turn = self.rounds.previous(annotator, item, review_round)
    if turn is None:
      place = f' in the {review_round} round' if before else ''
      raise InputError(f'there is no earlier answer of yours{place}.')
    return self._turn_fields(annotator, turn)

  def take(self, posted: Plain) -> Plain:
    """Saves an answer from the review page and returns what its annotator should judge next.

    Args:
      posted: the fields of an `Answer`, but with 'item', such as 'pair:17', instead of paths. Two
        optional fields guard against outdated pages: 'shown', the labels on the page, and
        'replaces', the time of the annotator's earlier answer on the page, or None.

    Returns:
      `{'item': the next anchor or pair or None, 'progress': counts of given and needed answers}`.

    Raises:
      OutdatedAnswerError: the labels or the earlier answer differ from 'shown' or 'replaces'.
      InputError: the answer is invalid.
    """
    fields = dict(posted)
    replaces = fields.pop('replaces', UNCHECKED)
    shown_labels = fields.pop('shown', UNCHECKED)
    is_time = type(replaces) in (int, float)  # `isinstance` would accept True
    if not is_time and replaces not in (None, UNCHECKED):
      raise InputError(f'replaces = {replaces!r}: give the time of an answer, or null.')
    item = self.candidates.item(str(fields.pop('item', '')))
    fields['anchor'], fields['neighbor'] = self.candidates.paths(item)
    labels = self._page_labels(item)
    if shown_labels not in (UNCHECKED, labels):
      raise OutdatedAnswerError(
        f'the labels of {item} have changed since it was shown here: answer again.'
      )
    answer = Answer.from_json({**fields, 'shown': labels, 'time': round(time.time(), 3)})
    self._check_annotator(answer.annotator)
    if item.kind == ANCHOR:  # for a pair, `Answer.from_json` has refused any added classes
      classes = self.candidates.class_names
      invalid = [added for added in answer.added if added in labels or added not in classes]
      if invalid:
        raise InputError(f'added = {invalid}: give ids of other classes than its labels.')
    self.rounds.submit(answer, self.log.append, replaces)
    return self.next_turn(answer.annotator)

  def _check_annotator(self, name: str) -> None:
    """Raises InputError if an annotator may not answer under this name.

    The name must be `self.annotator`, if that is set, and must not differ from another annotator's
    name only in upper and lower case.
    """
    if self.annotator is not None and name != self.annotator:
      problem = f'annotator {name!r} cannot answer here'
      raise InputError(f'{problem}: this server was started for {self.annotator!r}.')
    for earlier in self.rounds.annotators():
      if earlier != name and earlier.casefold() == name.casefold():
        problem = f'annotator {name!r} differs from {earlier!r}, who has answered, only in capitals'
        raise InputError(f'{problem}: give {earlier!r}, or a name that differs more.')

  def _turn_fields(self, annotator: str, turn: tuple[Item, str] | None) -> Plain:
    """Returns the JSON object that the review page shows for one anchor (labelled frame) or pair.

    Args:
      annotator: name of the annotator.
      turn: the item (anchor or pair) and its round, 'individual' or 'joint'; None if there is
        nothing to judge.

    Returns:
      `{'item': the anchor or pair, or None, 'progress': counts of given and needed answers}`.
    """
    progress = self.rounds.progress(annotator)
    if turn is None:
      return {'item': None, 'progress': progress}
    item, review_round = turn
    ballot, anchor = self.rounds.ballot(item), self.candidates.anchor_of(item)
    # In both rounds the page shows the annotator's newest answer, which is the joint vote if given.
    answer = ballot.joint.get(annotator) or ballot.individual.get(annotator)
    votes = ballot.votes if review_round == JOINT else []  # hidden in the individual round
    page_item: Plain = {
      'id': str(item),
      'kind': item.kind,
      'round': review_round,
      'labels': self._labels_with_names(self._page_labels(item)),
      # the time of the annotator's answer, which the page sends back as `replaces`
      'answered': self.rounds.answer_time(item, review_round, annotator),
      'answer': _answer_fields(answer) if answer else None,
      'others': [{'annotator': v.annotator, 'round': v.round, **_answer_fields(v)} for v in votes],
      'anchor': self._frame(self.candidates.anchor_frame(anchor.number)),
    }
    if item.kind == PAIR:
      page_item |= self._pair_fields(annotator, self.candidates.pairs[item.number], anchor)
    return {'item': page_item, 'progress': progress}

  def _pair_fields(self, annotator: str, pair: Pair, anchor: Item) -> Plain:
    """Returns the additional JSON fields that the review page needs for a pair.

    * 'neighbor', 'offset', 'neighbor_labels': the neighbor frame, its distance from the anchor, and
      its labels if they differ from the anchor's.
    * 'anchor_item', 'anchor_round', 'anchor_answered': name and round of the anchor, and when the
      annotator answered about it. A button on the page uses them to call the anchor bad.

    Args:
      annotator: name of the annotator.
      pair: the pair.
      anchor: the anchor (labelled frame) of the pair.
    """
    labels = self.candidates.labels[pair.frame]
    anchor_labels = self.candidates.labels[self.candidates.anchor_frame(pair.anchor)]
    has_other_labels = bool(labels) and labels != anchor_labels
    anchor_round = JOINT if self.rounds.ready_for_joint(anchor) else INDIVIDUAL
    return {
      'anchor_item': str(anchor),
      'anchor_round': anchor_round,
      'anchor_answered': self.rounds.answer_time(anchor, anchor_round, annotator),
      'neighbor': self._frame(pair.frame),
      'offset': pair.offset,
      'neighbor_labels': self._labels_with_names(labels) if has_other_labels else None,
    }

  def _page_labels(self, item: Item) -> list[int]:
    """Returns the class ids that the page shows for an anchor (labelled frame) or pair, ascending.

    These are the labels of the anchor. A pair also shows labels that annotators added to the
    anchor.
    """
    anchor = self.candidates.anchor_of(item)
    stored = self.candidates.labels[self.candidates.anchor_frame(anchor.number)]
    added = () if item == anchor else self.rounds.ballot(anchor).added
    return sorted({*stored, *added})

  def _frame(self, index: int) -> Plain:
    """Returns the URL, path and damage of a frame, with the keys 'url', 'path' and 'damage'.

    The damage is the reason why the image cannot be decoded, '' if it can.

    Args:
      index: index of the frame in `NeighborSets.frames`.
    """
    path, damage = self.candidates.sets.frames[index], self.frames.damage(index)
    return {'url': f'/frames/{index}', 'path': path, 'damage': damage}

  def _labels_with_names(self, labels: list[int] | tuple[int, ...]) -> list[Plain]:
    """Returns `{'id': class id, 'name': class name}` for each label."""
    return [{'id': label, 'name': self.candidates.class_names[label]} for label in labels]


def _answer_fields(answer: Answer) -> Plain:
  """Returns the fields of an answer that the review page displays."""
  return {key: vars(answer)[key] for key in ('label', 'similar', 'feature', 'reasons', 'added')}


def is_loopback(host: str) -> bool:
  """Returns whether a server that is bound to `host` can be reached from this machine only."""
  try:
    return ipaddress.ip_address(host).is_loopback
  except ValueError:
    return host == 'localhost'


def is_own_host(header: str | None, bound: str) -> bool:
  """Returns whether the Host header of a request names this server, against DNS rebinding.

  In DNS rebinding, another site resolves its name to this machine, so that its scripts could read
  the answers. The browser then sends the name of the other site in the Host header.

  Valid names are 'localhost', the bound address and all loopback addresses. For a server on the
  network, any IP address and the names of this machine are valid too. The port is ignored, because
  browsers omit port 80 and tunnels use another port.

  Args:
    header: the header, such as 'localhost:8000' or '[::1]:8000'; None if the request has none.
    bound: the name or address that the server is bound to.
  """
  without_port = re.sub(r':\d*$', '', header or '')
  name = without_port.removeprefix('[').removesuffix(']').lower()
  if name and name in ('localhost', bound.lower()):  # `bound` may be '', which is no valid name
    return True
  is_on_network = not is_loopback(bound)
  try:
    return ipaddress.ip_address(name).is_loopback or is_on_network
  except ValueError:  # the name is no IP address
    names_of_machine = (socket.gethostname().lower(), socket.getfqdn().lower())
    return is_on_network and name in names_of_machine


def _is_own_post(headers: Message) -> bool:
  """Returns whether a POST request comes from this server's page, not from another site.

  The content type must be JSON, which other sites cannot send without the consent of this server.
  The Origin header, if present, must name this server.
  """
  content_type, *_ = headers.get('Content-Type', '').split(';')
  is_json = content_type.strip().lower() == 'application/json'
  return is_json and headers.get('Origin') in (None, f'http://{headers.get("Host")}')


class _RequestError(Exception):
  """Raised to answer a request with an HTTP error status and a message."""

  def __init__(self, status: HTTPStatus, message: str):
    """Stores the HTTP status and the message for the user."""
    super().__init__(message)
    self.status = status


class _Handler(BaseHTTPRequestHandler):
  """Handles the HTTP requests of one connection."""

  server: ReviewServer
  protocol_version = 'HTTP/1.1'
  server_version, sys_version = 'review', ''
  timeout = 60  # seconds after which a silent connection is closed
  wbufsize = -1  # a response is sent in one piece

  def do_GET(self) -> None:
    """Answers a GET or POST request, and refuses requests from pages of other sites.

    `http.server` calls it for each request. Errors become responses with an HTTP status.
    """
    try:
      if not is_own_host(self.headers.get('Host'), self.server.host):
        raise _RequestError(HTTPStatus.FORBIDDEN, 'The Host header does not name this server.')
      # Another site may link to the page. Browsers send 'none' if the user typed the address.
      site = self.headers.get('Sec-Fetch-Site')
      if self.path != '/' and site not in (None, 'same-origin', 'none'):
        raise _RequestError(HTTPStatus.FORBIDDEN, 'Only the page itself may ask this.')
      url = urllib.parse.urlsplit(self.path)
      if self.command == 'POST':
        self._post(url.path)
      else:
        self._get(url.path, dict(urllib.parse.parse_qsl(url.query)))
    except _RequestError as refused:
      self._error(refused.status, str(refused))
    except OutdatedAnswerError as error:
      self._error(HTTPStatus.CONFLICT, str(error))
    except InputError as error:
      self._error(HTTPStatus.BAD_REQUEST, str(error))
    except (ConnectionError, TimeoutError):  # the browser closed the connection
      self.close_connection = True
    except OSError as error:
      self._error(HTTPStatus.INTERNAL_SERVER_ERROR, f'It could not be read or written: {error}')

  do_POST = do_GET  # noqa: N815  `do_GET` distinguishes them by `self.command`

  def _get(self, path: str, query: Mapping[str, str]) -> None:
    """Answers a GET request with a file of the page, a frame or JSON.

    Args:
      path: path of the URL.
      query: {name: value} from the query of the URL.
    """
    if path in PAGE:
      name, kind = PAGE[path]
      content = importlib.resources.files('robustness.video').joinpath('page', name).read_bytes()
      self._send(HTTPStatus.OK, content, kind)
    elif frame := re.fullmatch(r'/frames/([0-9]{1,9})', path):
      self._frame(int(frame[1]))
    elif path == '/api/session':
      self._json(self.server.session())
    elif path == '/api/next':
      self._json(self.server.next_turn(check_name(query.get('annotator'))))
    elif path == '/api/back':
      name, review_round = check_name(query.get('annotator')), query.get('round', INDIVIDUAL)
      self._json(self.server.earlier_turn(name, query.get('before', ''), review_round))
    else:
      raise _RequestError(HTTPStatus.NOT_FOUND, 'There is nothing at this address.')

  def _post(self, path: str) -> None:
    """Answers a POST request, by which the page sends an annotator's answer to `/api/answer`.

    Args:
      path: path of the URL.
    """
    length = self.headers.get('Content-Length', '')
    # `int` is called only for up to nine digits: it raises ValueError for thousands of them.
    is_number = length.isascii() and length.isdigit() and len(length) < 10
    if not is_number or int(length) > MAX_BODY:
      fix = f'Give a Content-Length of at most {MAX_BODY}.'
      raise _RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, fix)
    # Read before any refusal: the browser may not see a response that leaves its body unread.
    body = self.rfile.read(int(length))
    if path != '/api/answer':
      raise _RequestError(HTTPStatus.NOT_FOUND, 'There is nothing at this address.')
    if not _is_own_post(self.headers):
      raise _RequestError(HTTPStatus.FORBIDDEN, 'Only the page itself may send answers.')
    self._json(self.server.take(json_files.parse(body, 'the request', advice='Send JSON.')))

  def _frame(self, index: int) -> None:
    """Sends the image of a frame, unless the browser has it already."""
    try:
      frame = self.server.frames.read(index)
    except InputError as error:
      raise _RequestError(HTTPStatus.NOT_FOUND, str(error)) from error
    is_cached = self.headers.get('If-None-Match') == frame.tag
    status = HTTPStatus.NOT_MODIFIED if is_cached else HTTPStatus.OK
    self._send(status, b'' if is_cached else frame.content, frame.content_type, frame.tag)

  def _json(self, value: Plain, status: HTTPStatus = HTTPStatus.OK) -> None:
    """Sends a value as JSON."""
    self._send(status, json.dumps(value).encode(), 'application/json')

  def _error(self, status: HTTPStatus, message: str) -> None:
    """Sends an error and closes the connection."""
    self.close_connection = True  # the remaining bytes of the request are not read
    self._json({'error': message}, status)

  def _send(self, status: HTTPStatus, content: bytes, kind: str, tag: str = '') -> None:
    """Sends a response.

    Args:
      status: HTTP status.
      content: the body; b'' if the browser has it already (304).
      kind: MIME type of the body.
      tag: entity tag (ETag) of content that the browser may cache; '' for other content.
    """
    self.send_response(status)
    # 'no-cache' lets the browser store content, but ask by its tag whether it has changed
    headers = {'Content-Type': kind, 'Cache-Control': 'no-cache' if tag else 'no-store', **HEADERS}
    if tag:
      headers['ETag'] = tag
    if status != HTTPStatus.NOT_MODIFIED:
      headers['Content-Length'] = str(len(content))
    if self.close_connection:
      headers['Connection'] = 'close'
    for name, value in headers.items():
      self.send_header(name, value)
    self.end_headers()
    self.wfile.write(content)

  def log_message(self, format: str, *args: object) -> None:
    """Prints nothing, because the file of answers is the log."""
