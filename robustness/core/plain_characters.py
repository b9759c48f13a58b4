"""Printed forms of characters: without UTF-8 '×' is printed as 'x' and 'ε' as 'epsilon'.

On every terminal control characters are escaped, because names in data and messages that quote data
may contain them: ESC is printed as '\\x1b'.
"""

import codecs
import functools
import io
import os
import sys
import unicodedata
from collections.abc import Callable

HANDLER = 'plain_characters'
"""Name of the error handler of encodings."""
PLAIN = {
  character: form
  for characters, forms in (
    ('×·∗⊙•÷⁄√λ∂∇−–—─±°', 'x * * * * / / sqrt lambda d grad - - - - +- degrees'),
    ('…→←↑↓▶≥≤≠≈∝∈∞‖⟨⟩“”‘’', '... -> <- ^ v > >= <= != ~ ~ in inf || < > " " \' \''),
    ('⌊⌋⌈⌉ßæø', 'floor( ) ceil( ) ss ae o'),
  )
  for character, form in zip(characters, forms.split(), strict=True)
}
"""Printed forms of characters that have no decomposition in Unicode."""

_CONTROLS = (*range(9), *range(11, 32), *range(127, 160))  # without tab (9) and line feed (10)
_DIRECTIONS = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Codes of the characters that control the direction of text."""
_ESCAPES = {
  code: chr(code).encode('unicode_escape').decode()
  for code in (*_CONTROLS, *_DIRECTIONS, 0x2028, 0x2029)  # the last two separate lines
}
"""{code of a character that controls a terminal or the direction of text: its printed form}."""


def use() -> None:
  """Filters what this process prints to stdout and stderr.

  Control characters are escaped, and characters that the encoding of a stream lacks are replaced.
  A stream that is closed (`2>&-`) becomes the null device. Otherwise, lines for stderr would be
  printed to stdout, and the next file that is opened would get the stream's number.
  """
  for name in ('stdout', 'stderr'):
    if getattr(sys, name) is None:
      setattr(sys, name, open(os.devnull, 'w', encoding='utf-8'))  # noqa: SIM115 (never closed)
  codecs.register_error(HANDLER, _replace_unencodable)
  for stream, escape in ((sys.stdout, escaped), (sys.stderr, _escaped_unless_bar)):
    if not isinstance(stream, io.TextIOWrapper):
      continue
    if codecs.lookup(stream.encoding).name != 'utf-8':
      stream.reconfigure(errors=HANDLER)
    # The method of the object is replaced, and not `sys.stdout`, because loggers hold the object.
    # An attribute `write` of the object shows that this was done before.
    if 'write' not in vars(stream):
      vars(stream)['write'] = functools.partial(_write, stream.write, escape)


def escaped(text: str) -> str:
  """Returns a text with escaped control characters, except tabs and ends of lines."""
  return text.translate(_ESCAPES)


def _write(write: Callable[[str], int], escape: Callable[[str], str], text: str) -> int:
  """Writes a text after characters were replaced by `escape`."""
  return write(escape(text))


def _escaped_unless_bar(text: str) -> str:
  """Returns a text for stderr with control characters escaped, except those that redraw a bar.

  `tqdm` redraws a progress bar by writing a text that begins, and may end, with a carriage return.
  To reach another bar it writes a text of moves up a line only.
  """
  move_up = '\x1b[A'
  if not text.replace(move_up, ''):
    return text
  if text.startswith('\r'):
    end = '\r' if text.endswith('\r') else ''
    return '\r' + escaped(text.strip('\r')) + end
  return escaped(text)


def plain(text: str) -> str:
  """Returns a text in ASCII; a character without a plain form is escaped, as '\\u6f22'."""
  return ''.join(map(_ascii_form, text))


def _ascii_form(character: str) -> str:
  """Returns a character in ASCII.

  It is the form in `PLAIN`, the name of a Greek letter, the base letter without its accents, or an
  escape.
  """
  if character.isascii():
    return character
  if character in PLAIN:
    return PLAIN[character]
  words = unicodedata.name(character, '').split()
  if words[:1] == ['GREEK'] and 'LETTER' in words:
    letter = words[words.index('LETTER') + 1]
    return letter.capitalize() if 'CAPITAL' in words else letter.lower()
  if unicodedata.combining(character):
    return ''
  decomposed = unicodedata.normalize('NFKD', character)
  if decomposed == character:
    return character.encode('ascii', 'backslashreplace').decode()
  is_superscript = unicodedata.decomposition(character).startswith('<super>')
  return ('^' if is_superscript else '') + plain(decomposed)  # '²' becomes '^2'


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
  """Returns (replacement, end of the replaced part) for characters that an encoding lacks.

  It is an error handler of `codecs`.
  """
  if not isinstance(error, UnicodeEncodeError):
    raise error
  return plain(error.object[error.start : error.end]), error.end
