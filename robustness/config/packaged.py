"""The configs that come with the package, by name: the files in `configs/`."""

import ast
import pathlib
from collections.abc import Iterable

from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded


def files() -> dict[str, pathlib.Path]:
  """Returns the packaged configs, as {name: file}, sorted by name.

  They are in robustness/configs of an installed package, or in configs/ of a checkout.
  """
  inside = pathlib.Path(__file__).resolve().parents[1] / 'configs'
  folder = inside if inside.is_dir() else inside.parent.with_name('configs')
  return {path.stem: path for path in sorted(folder.glob('[a-z]*.py'))}


def find(name: str, other_words: Iterable[str] = ()) -> pathlib.Path:
  """Returns the file of a config from its path, or from the name of a packaged config.

  If both exist, the path counts.

  Args:
    name: the path or name.
    other_words: other words that the command accepts, such as 'list'. The error suggests them too.

  Raises:
    InputError: there is no such config, or the path is a folder.
  """
  path = expanded(name)
  configs = files()
  if path.is_file():
    return path
  if name in configs:
    return configs[name]
  if path.is_dir():
    raise InputError(
      f'{name} is a folder: give {path / "config.json"} of a workdir, or `robustness report '
      f'{name}` to draw its results again.'
    )
  raise InputError(
    f'config file {name} does not exist; as the name of a packaged config, '
    f'{nearest(path.stem, [*configs, *other_words])}.'
  )


def docstring(path: pathlib.Path) -> str:
  """Returns the docstring of a Python file without running the file; '' for none."""
  return ast.get_docstring(ast.parse(path.read_text(encoding='utf-8'))) or ''


def first_line(path: pathlib.Path) -> str:
  """Returns the first line of the docstring of a Python file; '' for none."""
  return docstring(path).partition('\n')[0]
