"""Plain characters for terminals that are not UTF-8: '×' is printed as 'x', 'ε' as 'epsilon'."""

import codecs
import io
import sys
import unicodedata

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
"""What is printed for characters that Unicode gives no decomposition."""


def use() -> None:
  """Makes this process print plain characters where a stream's encoding has no others."""
  codecs.register_error(HANDLER, _replaced)
  for stream in (sys.stdout, sys.stderr):
    if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != 'utf-8':
      stream.reconfigure(errors=HANDLER)


def plain(text: str) -> str:
  """Returns a text in ASCII; a character without a plain form is escaped, as '\\u6f22'."""
  return ''.join(map(_plain, text))


def _plain(character: str) -> str:
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
  raised = '^' if unicodedata.decomposition(character).startswith('<super>') else ''
  return raised + plain(decomposed)


def _replaced(error: UnicodeError) -> tuple[str, int]:
  if not isinstance(error, UnicodeEncodeError):
    raise error
  return plain(error.object[error.start : error.end]), error.end
