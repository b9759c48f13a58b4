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
  """Makes stdout and stderr of this process print only characters that their terminal can show.

  Control characters are escaped. Characters that the encoding of the stream lacks are replaced,
  such as '×' by 'x'. A stream that was closed (`2>&-`) becomes the null device.
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
  """Returns text with its control characters escaped, except tabs and line feeds."""
  return text.translate(_ESCAPES)


def _write(write: Callable[[str], int], escape: Callable[[str], str], text: str) -> int:
  """Writes `escape(text)` by `write` and returns the number of characters written.

  Args:
    write: the original `write` method of a stream.
    escape: function that replaces control characters in a text.
    text: the text to write.
  """
  return write(escape(text))


def _escaped_unless_bar(text: str) -> str:
  """Returns text for stderr with control characters escaped, without breaking `tqdm` bars.

  To redraw a bar, `tqdm` writes a text that begins with a carriage return and may end with another.
  To move to another bar, it writes only the control sequence "move up a line". These are kept.
  """
  move_up = '\x1b[A'
  if not text.replace(move_up, ''):
    return text
  if text.startswith('\r'):
    end = '\r' if text.endswith('\r') else ''
    return '\r' + escaped(text.strip('\r')) + end
  return escaped(text)


def plain(text: str) -> str:
  r"""Returns text in ASCII, such as 'x' for '×' and 'epsilon' for 'ε'.

  A character without such a form is escaped, as '\u6f22'.
  """
  return ''.join(map(_ascii_form, text))


def _ascii_form(character: str) -> str:
  r"""Returns an ASCII replacement of a character.

  In order of priority: the form in `PLAIN`, the name of a Greek letter, the base letter without its
  accents, or an escape such as '\u6f22'.
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
  """Error handler for `codecs.register_error` that replaces characters that an encoding lacks.

  Returns:
    (replacement in ASCII, position in the text after the replaced characters).
  """
  if not isinstance(error, UnicodeEncodeError):
    raise error
  return plain(error.object[error.start : error.end]), error.end
