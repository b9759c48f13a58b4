"""What the Fourier attack and the preview of a heat map found, in words."""

from __future__ import annotations

from robustness.results import Results
from robustness.wording.phrases import Reader, clean_errors, counted, listed, percent, plain, told


def attack_sentences(results: Results) -> list[str]:
  """Returns the errors after one query and after all, and the differences after all."""
  return told(results, [_errors, _differences])


def _errors(reader: Reader) -> str:
  queries = int(reader.setting('queries'))

  def clause(label: str) -> str:
    steps = [('error_1_query', 'after one query')]
    if queries > 1:
      steps.append((f'error_{queries}_queries', f'after {queries}'))
    said = [f'{percent(reader.number(name, label))} {when}' for name, when in steps]
    clean = reader.number('clean_error', label)
    return f'{label} errs on {listed(said)}, without attack on {percent(clean)}'

  clean = reader.number('clean_error', reader.first)
  norm = reader.setting('norm')
  return (
    f'under single Fourier basis images of L2 norm {norm:g}, on {counted(clean, "images")} that '
    f'did not choose them, {reader.each(clause)}'
  )


def _differences(reader: Reader) -> str:
  view = str(reader.table('comparison').rows[-1][2])
  differences = reader.differences('lower error', 'higher error', lambda row: row == view)
  return f'error after {view} minus that of {reader.first}, on the same images: {differences}'


def preview_sentences(results: Results) -> list[str]:
  """Returns in which bands the loss is most sensitive, a frequency, and the clean errors."""
  return told(results, [_bands, clean_errors])


def _bands(reader: Reader) -> str:
  def clause(label: str) -> str:
    means = sorted(
      reader.beginning('sensitivity_per_cell/', label).items(), key=lambda s: -s[1].value
    )
    return f'{label} ' + ', '.join(
      f'{plain(mean)} at {"middle" if band == "mid" else band} frequency' for band, mean in means
    )

  return (
    'energy of the gradient of the loss at a frequency, relative to the mean over all of them, '
    f'image by image: {reader.each(clause)}'
  )
