"""Draws the pictures of the documentation, which are figures of the runs that its pages print.

python docs/pictures.py --workdirs=/tmp/pictures [CONFIG ...]

The link images/CONFIG/FIGURE.png in a page means figures/FIGURE.png of the first command with
configs/CONFIG.py that the page prints, or that any page prints where this one prints none. Every
such command is run with its folders in `--workdirs`, where a finished run is not repeated. An hour
on two busy cores draws all; `si_score` needs `pip install '.[imagenet]'`.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import shlex
import subprocess
import sys

from robustness.core.pictures import read_rgb

ROOT = pathlib.Path(__file__).resolve().parents[1]
IMAGES = ROOT / 'docs/images'
LINK = r'!\[([^\]]*)\]\([./\w]*images/(\w+)/(\w+)\.png\)'


def pages() -> list[pathlib.Path]:
  """Returns README.md and the pages of docs/."""
  return [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))]


def linked() -> dict[str, set[str]]:
  """Returns {config: names of its figures that pages show}."""
  found: dict[str, set[str]] = {}
  for page in pages():
    for _caption, config, figure in re.findall(LINK, page.read_text(encoding='utf-8')):
      found.setdefault(config, set()).add(figure)
  return found


def command(config: str) -> list[str]:
  """Returns the arguments of main.py in the first command printed with a config.

  Pages that show a figure of the config are searched first.

  Raises:
    ValueError: no page prints one.
  """
  texts = [page.read_text(encoding='utf-8').replace('\\\n', ' ') for page in pages()]
  # False, for a page with a figure, sorts before True
  for text in sorted(texts, key=lambda text: f'images/{config}/' not in text):
    printed = re.search(rf'python main\.py (--config=configs/{config}\.py .*)', text)
    if printed:
      return shlex.split(printed[1])
  raise ValueError(f'No page prints `python main.py --config=configs/{config}.py ...`.')


def keep(workdir: pathlib.Path, config: str, figures: set[str], images: pathlib.Path) -> None:
  """Copies figures/NAME.png of a finished run to images/CONFIG/NAME.png for the NAMEs `figures`.

  The copies are opaque (no alpha channel), which makes them smaller.
  """
  (images / config).mkdir(parents=True, exist_ok=True)
  for figure in sorted(figures):
    drawn = read_rgb(workdir / 'figures' / f'{figure}.png')
    drawn.save(images / config / f'{figure}.png', optimize=True)


def main() -> None:
  """Runs the commands of the named configs, or of all, and copies their figures to docs/images."""
  parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0] if __doc__ else '')
  parser.add_argument('configs', nargs='*', help='those of all pages, unless some are named')
  parser.add_argument('--workdirs', default='/tmp/pictures', help='the folder of the runs')
  given = parser.parse_args()
  for config in given.configs or sorted(linked()):
    # pages print folders in /tmp
    arguments = [word.replace('=/tmp/', f'={given.workdirs}/') for word in command(config)]
    subprocess.run([sys.executable, 'main.py', *arguments], cwd=ROOT, check=True)
    (workdir,) = (word.partition('=')[2] for word in arguments if word.startswith('--workdir='))
    keep(pathlib.Path(workdir), config, linked()[config], IMAGES)


if __name__ == '__main__':
  main()
