"""Hooks of MkDocs: pages outside of docs/ belong to the site.

Pages are written for the repository, where links are paths between files. README.md becomes the
home page, with the first picture of every page as a gallery, other files of `OUTSIDE` pages or
downloads, leaderboard/ its static page, and links to them are translated.
"""

from __future__ import annotations

import os
import pathlib
import posixpath
import re
import subprocess
import sys
import tempfile

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTSIDE = {
  'README.md': 'index.md',
  'CONTRIBUTING.md': 'contributing.md',
  'CHANGELOG.md': 'changelog.md',
  'CITATION.cff': 'CITATION.cff',
  **{f'colabs/{path.name}': f'colabs/{path.name}' for path in ROOT.glob('colabs/*.ipynb')},
}
"""Files of the repository, and what they are called in the site."""
BOARD, BOARD_PAGE = 'leaderboard', 'leaderboard/report.html'


def on_files(files: Files, config: MkDocsConfig) -> Files:
  """Returns the files of the site, to which MkDocs has added only the files of docs/.

  This hook adds the files of `OUTSIDE` and the pages that the command `leaderboard` writes.
  """
  with tempfile.TemporaryDirectory() as made:
    command = [sys.executable, '-m', 'robustness', 'leaderboard', BOARD, f'--out={made}']
    status = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode
    if status not in (0, 1):  # 1: the page leaves out entries, which it names
      raise subprocess.CalledProcessError(status, command)
    for path in sorted(pathlib.Path(made).rglob('*.*')):
      name = f'{BOARD}/{path.relative_to(made).as_posix()}'
      files.append(File.generated(config, name, content=path.read_bytes()))
  for path, name in OUTSIDE.items():
    files.append(File.generated(config, name, content=(ROOT / path).read_text(encoding='utf-8')))
  return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
  """Returns a page's text with links between the repository's files replaced by the site's links.

  The home page also gets the gallery, before its first section.
  """
  paths = {name: path for path, name in OUTSIDE.items()}  # in the repository, by name in the site
  uri = page.file.src_uri
  if uri == 'index.md':
    markdown = markdown.replace('\n## ', f'\n## Gallery\n\n{gallery()}\n\n## ', 1)
  return translated(markdown, paths.get(uri, f'docs/{uri}'), uri)


def gallery() -> str:
  """Returns Markdown with the first picture of every page that has one, each linked to its page."""
  cells = []
  for path in sorted((ROOT / 'docs').rglob('*.md')):
    picture = re.search(r'!(\[[^\]]+\])\([./]*(images/[^)]+)\)', path.read_text(encoding='utf-8'))
    if picture:
      image = f'!{picture[1]}(docs/{picture[2]}){{ width=340 }}'
      cells.append(f'[{image}]({path.relative_to(ROOT).as_posix()})')
  return '\n'.join(cells)


def translated(markdown: str, path: str, uri: str) -> str:
  """Returns a page with each link to a file of the repository replaced by its place in the site.

  Args:
    markdown: text of the page, with links as paths from its folder in the repository.
    path: path of the page in the repository, such as 'README.md'.
    uri: path of the page in the site, such as 'index.md'.
  """

  def link(match: re.Match[str]) -> str:
    """Returns the link `](TARGET)` of the site; addresses and links within the page stay."""
    target, hash_sign, anchor = match[1].partition('#')
    if not target or '://' in target:
      return match[0]
    file = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    name = BOARD_PAGE if file == BOARD else OUTSIDE.get(file, file.removeprefix('docs/'))
    return f']({os.path.relpath(name, posixpath.dirname(uri) or ".")}{hash_sign}{anchor})'

  return re.sub(r'\]\(([^)\s]+)\)', link, markdown)
