"""Tests the plain characters that replace others on a terminal that is not UTF-8."""

import io
import sys

import pytest

from robustness.core import plain_characters
from robustness.core.progress import Progress, phase
from tests.cases import cases
from tests.commands import python


@cases(
  'text, printed',
  ('2 × cpu, 10² µm ± ½ …', '2 x cpu, 10^2 mum +- 1/2 ...'),
  ('ε ≥ 8/255 in ℓ∞, Σ λ ρ̄', 'epsilon >= 8/255 in linf, Sigma lambda rho'),
  ('−1\N{NO-BREAK SPACE}%, 3 °', '-1 %, 3 degrees'),
  ('café 漢', r'cafe \u6f22'),
)
def test_characters_have_a_plain_form(text, printed):
  assert plain_characters.plain(text) == printed


def streams(monkeypatch, encoding):
  """Returns new streams in place of `sys.stdout` and `sys.stderr`, with plain characters on."""
  stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
  monkeypatch.setattr(sys, 'stdout', stdout)
  monkeypatch.setattr(sys, 'stderr', stderr)
  plain_characters.use()
  return stdout, stderr


@cases(
  'encoding, printed', ('ascii', b'2 x eps'), ('latin-1', b'2 \xd7 eps'), ('utf-8', b'2 \xc3\x97')
)
def test_characters_of_the_encoding_are_printed_unchanged(monkeypatch, encoding, printed):
  stdout, _ = streams(monkeypatch, encoding)
  print('2 × ε', flush=True)
  assert stdout.buffer.getvalue().startswith(printed)


def test_a_bar_of_progress_is_plain(monkeypatch):
  _, stderr = streams(monkeypatch, 'ascii')
  monkeypatch.setattr(stderr, 'isatty', lambda: True, raising=False)
  with Progress(4, 'pgd ε', 'images') as progress:
    progress.advance(4)
  stderr.flush()
  written = stderr.buffer.getvalue().decode('ascii')
  assert 'pgd epsilon: ' in written and 'compiling ...' in written and '4.00/4.00' in written


@cases(
  'text, printed',
  ('a\x1b[2J\0\r\x9b1A', r'a\x1b[2J\x00\r\x9b1A'),
  ('\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe\N{LINE SEPARATOR}', r'\u202egnp.exe\u2028'),
  ('a\tb\n é\N{NO-BREAK SPACE}漢', 'a\tb\n é\N{NO-BREAK SPACE}漢'),
)
def test_characters_that_control_a_terminal_are_escaped(monkeypatch, text, printed):
  for stream in streams(monkeypatch, 'utf-8'):
    print('entry', text, file=stream, flush=True)
    assert stream.buffer.getvalue().decode() == f'entry {printed}\n'


def test_characters_that_move_a_bar_of_progress_are_not_escaped(monkeypatch):
  _, stderr = streams(monkeypatch, 'utf-8')
  for text in ('\r 4/4\x1b', '\x1b[A\x1b[A', '\r    \r'):
    stderr.write(text)
  stderr.flush()
  assert stderr.buffer.getvalue() == b'\r 4/4\\x1b\x1b[A\x1b[A\r    \r'


def test_lines_for_a_closed_stderr_do_not_reach_stdout(monkeypatch, capsys):
  monkeypatch.setattr(sys, 'stderr', None)
  with phase('estimates'):
    pass
  plain_characters.use()
  print('note', file=sys.stderr)
  sys.stderr.close()
  assert capsys.readouterr().out == ''


@pytest.mark.slow
@cases(
  'command, words', ('list', 'Tar files'), ('doctor', ' x cpu'), ('attack_error --dry_run', ' x ')
)
def test_commands_print_ascii(command, words):
  output = python('-m', 'robustness', *command.split(), PYTHONIOENCODING='ascii')
  assert output.isascii() and words in output and '\\x' not in output
