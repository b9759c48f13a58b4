"""The HTML report has all results, loads nothing from outside and escapes the texts in it."""

import dataclasses
import html.parser
import os
import pathlib
import re
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from robustness import __version__
from robustness.estimates.quantity import Quantity
from robustness.present.page import PAPERS, Context, bibtex, shortened_tables, write_report
from robustness.present.phrases import classifier_facts, classifier_words, data_words
from robustness.present.publish import Presentation, publish
from robustness.present.sentences import findings
from robustness.present.style import save
from robustness.results import Results, Table
from tests.cases import cases
from tests.present.made_results import made_results
from tests.refusals import refused

VOID = {'meta', 'img', 'wbr'}
SPACE = '\N{NO-BREAK SPACE}'


class Page(html.parser.HTMLParser):
  """Collects the sources, links, anchors, tags and text of a page with balanced tags."""

  def __init__(self) -> None:
    super().__init__()
    self.open, self.resources, self.links, self.anchors, self.tags = ([] for _ in range(5))
    self.text = ''

  def handle_starttag(self, tag: str, attrs: Any) -> None:
    if tag not in VOID:
      self.open.append(tag)
    self.resources += [value for key, value in attrs if key == 'src']
    self.links += [value for key, value in attrs if key == 'href']
    self.anchors += [value for key, value in attrs if key == 'id']
    self.tags.append(tag)

  def handle_endtag(self, tag: str) -> None:
    assert self.open.pop() == tag

  def handle_data(self, data: str) -> None:
    self.text += data


def write_example(directory: pathlib.Path) -> pathlib.Path:
  """Writes a report with two figures, odd texts and missing values; returns its path."""
  names = ('error_corruption', 'error_severity')
  for name in names:
    save(Figure(figsize=(1, 1)), directory / 'figures' / f'{name}.png')
  made, classes = made_results(), [f'class{i}' for i in range(100)]
  described = {'architecture': 'small_cnn', 'weights': 'trained here', 'step': 40}
  results = dataclasses.replace(
    made,
    classifiers=[
      {**classifier, **described, 'note': '<b>bold</b>'} for classifier in made.classifiers
    ],
    data={'source': 'https://example.org/set', 'num_examples': 200, 'class_names': classes},
    settings={'norm': 4.0},
    tables={'which_numbers_these_are': Table(['what', 'is'], [['a & b', None], ['c', 0.12345]])},
  )
  figures = [(directory / 'figures' / f'{name}.png', f'{name} < 1 everywhere.') for name in names]
  facts = {'seed': 7, 'started': '2026-05-04T03:02:01+00:00', 'versions': {'jax': '0.10.2'}}
  facts |= {'devices': ['cpu cpu', 'cpu cpu'], 'git_commit': 'abc123', 'seconds': 90.2}
  config = {'study': {'name': 'fourier_heatmap', 'clip': False}}
  facts['command'] = "python main.py --config=a.py --workdir='<out>'"
  made_by = facts, config, findings(results), ['yin2019fourier']
  return write_report(directory, results, figures, Context('Error under <corruptions>', *made_by))


def test_a_report_without_headlines_can_be_written_again(tmp_path):
  made = made_results()
  facts = {'facts': Table(['what', 'is'], [['a', 'b'], ['c', 'd']])}
  empty = dataclasses.replace(made, table=made.table[:0], tables=facts)
  write_report(tmp_path, empty, [], Context('Nothing', {}, {}, [], []))
  assert '<table>' in (tmp_path / 'report.html').read_text()
  assert shortened_tables(tmp_path, empty) == []
  write_report(tmp_path, made, [], Context('Errors', {}, {}, [], []))
  assert 'headlines' in shortened_tables(tmp_path, empty)


def parsed(path: pathlib.Path) -> Page:
  page = Page()
  page.feed(path.read_text(encoding='utf-8'))
  assert not page.open
  return page


@pytest.fixture(scope='module')
def page(tmp_path_factory):
  return parsed(write_example(tmp_path_factory.mktemp('report')))


def test_the_page_has_title_data_classifiers_values_settings_and_citations(page):
  for text in (
    *('Error under <corruptions>', '200 images of https://example.org/set', 'abc123'),
    *('small cnn, trained here 40 steps, <b>bold</b>', '2026-05-04, 90 s, 2 × cpu'),
    *("--workdir='<out>'", 'top-1 error (%)', 'second − first', '\\begin{tabular}{lrrr}'),
    'error_corruption < 1 everywhere.',
    'Highest top-1 error of 2 corruptions: first ',
    *(f'95{SPACE}% intervals', 'another training of the same kind'),
    *('@inproceedings{yin2019fourier,', '@software{classifier_robustness,'),
    *('a & b', '0.1235', 'norm', 'versions.jax', '"clip": false', '… (100 in all)'),
  ):
    assert text in page.text
  assert 'nan' not in page.text and 'None' not in page.text, 'missing numbers are words'


def test_the_first_screen_has_card_table_and_figure_and_the_page_needs_nothing_else(page):
  order = ['Error under <corr', 'abc123', 'top-1 error (%)', 'error_corruption <', 'Highest top-1']
  places = [page.text.index(text) for text in order]
  assert places == sorted(places)
  assert page.text.index('error_severity < 1') > places[-1], 'other figures follow'
  assert all(name.startswith('data:image/png;base64,') for name in page.resources)
  assert len(page.resources) == 2
  outside = [link for link in page.links if not link.startswith('#')]
  workdir_files = ('results.', 'config.json', 'environment.json', 'figures/')
  assert outside and all(link.startswith(workdir_files) for link in outside)


def test_contents_figures_and_rows_are_where_links_lead_and_headings_have_an_order(page):
  inside = [link.removeprefix('#') for link in page.links if link.startswith('#')]
  assert len(page.anchors) == len(set(page.anchors))
  assert set(inside) <= set(page.anchors)
  assert {'Findings', 'figure-error_corruption', 'rows-error_corruption_severity'} <= set(inside)
  headings = [tag for tag in page.tags if tag in ('h1', 'h2', 'h3')]
  assert headings[0] == 'h1' and 'h1' not in headings[1:]
  assert headings.index('h2') < headings.index('h3')


EMPTY = Results('my_study', [], {}, {})


def test_figures_of_parts_are_folded_linked_in_their_folders_and_have_separate_anchors(tmp_path):
  png = tmp_path / 'tasks/a b/figures/map.png'
  save(Figure(figsize=(1, 1)), png)
  png.with_suffix('.svg').touch()
  page = parsed(write_report(tmp_path, EMPTY, [(png, 'A map.')], Context()))
  files = [link for link in page.links if link.endswith(('png', 'svg', 'pdf'))]
  assert files == [f'tasks/a%20b/figures/map.{kind}' for kind in ('png', 'svg')]
  assert 'Task a b' in page.text and '1 figure' in page.text
  made = made_results()
  made.write(tmp_path)
  page = parsed(write_report(tmp_path, made, [], Context()))
  links = [link for link in page.links if not link.startswith('#')]
  assert links == ['results.csv', 'results.json', 'results.npz']
  names = ['a b/figures/x', 'a_b/figures/x', 'A b/figures/x', 'A b/figures/X', 'A b/figures/x y']
  files = [tmp_path / 'tasks' / f'{name}.png' for name in names]
  for file in files:
    save(Figure(figsize=(1, 1)), file)
  figures = [(file, 'A map.') for file in files]
  page = parsed(write_report(tmp_path, EMPTY, figures, Context()))
  assert len(page.anchors) == len(set(page.anchors))
  assert page.tags.count('figure') == len(names)


def test_a_finding_links_to_the_figure_of_its_quantity(tmp_path):
  made = made_results()
  other = Quantity('error_change', 'change of the error')
  made.quantities = (*made.quantities, other)
  names = ('error_change_corruption', 'error_severity')
  figures = [(tmp_path / f'{name}.png', 'A map.') for name in names]
  for file, _ in figures:
    save(Figure(figsize=(1, 1)), file)
  page = parsed(write_report(tmp_path, made, figures, Context(findings=findings(made)[:1])))
  assert [link for link in page.links if link.startswith('#figure')] == ['#figure-error_severity']


def test_the_page_is_written_again_byte_for_byte(tmp_path):
  first = write_example(tmp_path).read_bytes()
  assert write_example(tmp_path).read_bytes() == first


def test_a_report_of_a_study_without_a_title_figures_and_estimates(tmp_path):
  page = write_report(tmp_path, EMPTY, [], Context()).read_text()
  assert '<h1>My study</h1>' in page
  for title in ('Findings', 'Figures', 'Tables'):
    assert f'<h2>{title}' not in page
  assert '<h2>How to cite' in page


def test_rows_that_no_table_holds_are_named(tmp_path):
  made = made_results()
  rows = [made.table.iloc[:1].assign(corruption=f'c{k}', value=k / 130) for k in range(130)]
  many = pd.concat(rows, ignore_index=True)
  results = dataclasses.replace(made, table=many)
  page = parsed(write_report(tmp_path, results, [], Context(findings=findings(results))))
  assert 'In results.csv alone: top-1 error by corruption: 130 rows.' in page.text
  assert 'rows-error_corruption' not in page.anchors and 'results.csv' in page.links
  assert not any(link.startswith('#rows') for link in page.links), 'no link leads nowhere'


TRAINED = {'label': 'a', 'architecture': 'small_cnn', 'weights': 'trained here', 'step': 40}


def test_the_front_end_of_a_classifier_and_the_first_of_its_seeds_are_described():
  filtered = {**TRAINED, 'input_filter': {'name': 'low_pass', 'bandwidth': 3}}
  words = 'small cnn behind low pass (bandwidth 3), trained here 40 steps'
  assert classifier_words(filtered) == words
  adapting = {**TRAINED, 'adaptation': {'name': 'tent', 'batch_size': 16, 'reset': 'view'}}
  assert classifier_words(adapting).endswith(', adapting by tent (batch size 16)')
  assert classifier_words({**TRAINED, 'input_filter': None}) == 'small cnn, trained here 40 steps'
  balanced = classifier_words({**TRAINED, 'balanced': 'environment'})
  assert balanced == 'small cnn, trained here 40 steps with batches balanced by environment'
  seeds = {'0': TRAINED, '1': {**TRAINED, 'step': 50}}
  assert classifier_words({'label': 'a', 'seeds': seeds}) == classifier_words(TRAINED)
  sized = {**TRAINED, 'preprocessing': {'input_size': 224}}
  seeds = {seed: {**sized, 'sha256': 64 * seed} for seed in ('0', '1')}
  facts = ['made for 224 × 224 pixels', 'SHA-256 000000000000, 111111111111']
  assert classifier_facts({'label': 'a', 'seeds': seeds})[1:] == facts


CITATION = pathlib.Path(__file__).resolve().parents[2] / 'CITATION.cff'


def entries(text: str) -> dict[str, dict[str, str]]:
  """Returns the fields of BibTeX entries, by the key of the entry."""
  assert text.count('{') == text.count('}')
  return {
    match[1]: dict(re.findall(r'^  (\w+) += \{(.*)\},?$', match[2], re.MULTILINE))
    for match in re.finditer(r'^@\w+\{(\w+),\n(.*?)^\}', text, re.MULTILINE | re.DOTALL)
  }


def test_every_entry_has_all_required_fields():
  written = entries(bibtex(PAPERS))
  assert list(written) == [*PAPERS, 'classifier_robustness']
  for key in PAPERS:
    fields = written[key]
    assert {'author', 'title', 'year'} < set(fields)
    assert {'booktitle', 'journal'} & set(fields)
    assert key.startswith(fields['author'].partition(',')[0].lower() + fields['year'])
    assert all(name.count(', ') == 1 for name in fields['author'].split(' and '))
  assert written['classifier_robustness']['version'] == __version__


def test_the_papers_of_the_citation_file_are_here_word_for_word():
  yaml = pytest.importorskip('yaml')
  document = yaml.safe_load(CITATION.read_text())
  assert document['version'] == __version__
  fields = entries(bibtex(PAPERS)).values()
  by_title = {re.sub(r'[{}]', '', entry['title']): entry for entry in fields}
  for reference in document['references']:
    fields = by_title[reference['title']]
    people = [f'{name["family-names"]}, {name["given-names"]}' for name in reference['authors']]
    assert fields['author'].split(' and ') == people
    assert fields['year'] == str(reference['year'])
    if 'collection-title' in reference:
      assert fields['booktitle'] == reference['collection-title']


RESULTS = made_results()
MADE_BY = {'command': 'python main.py --config=configs/accuracy.py', 'seed': 0}


def test_a_folder_holds_results_figures_and_report(tmp_path):
  def draw(results: Results) -> dict[str, tuple[Figure, str]]:
    assert results is RESULTS
    figure = Figure()
    figure.subplots().plot([0, 1])
    return {'line': (figure, 'A line.')}

  presented = Presentation('A line', ('yin2019fourier',), draw)
  publish(tmp_path, RESULTS, presented, MADE_BY, {})
  pd.testing.assert_frame_equal(Results.read(tmp_path).table, RESULTS.table)
  assert (tmp_path / 'figures/line.png').read_bytes().startswith(b'\x89PNG')
  page = (tmp_path / 'report.html').read_text()
  for text in ('A line.', MADE_BY['command'], 'Highest top-1 error', 'yin2019fourier'):
    assert text in page


@pytest.mark.slow
def test_figures_are_drawn_again_only_after_a_change(tmp_path, monkeypatch):
  def draw(results: Results) -> dict[str, tuple[Figure, str]]:
    return {'line': (Figure((1, 1)), 'A line.')}

  def written(table: pd.DataFrame = RESULTS.table) -> set[str]:
    for file in (tmp_path / 'figures').glob('*'):
      os.utime(file, (0, 0))
    publish(tmp_path, dataclasses.replace(RESULTS, table=table), presented, MADE_BY, {})
    return {file.name for file in (tmp_path / 'figures').glob('*') if file.stat().st_mtime}

  presented, files = Presentation('Made', figures=draw), {'line.png', 'drawn.json'}
  assert written() == files == written(), 'the digest does not cover code outside the package'
  draw.__module__ = publish.__module__
  assert written() == files
  report = (tmp_path / 'report.html').read_bytes()
  assert written() == set() and (tmp_path / 'report.html').read_bytes() == report
  for name, content in {'line.png': 'altered', 'drawn.json': '{'}.items():
    (tmp_path / 'figures' / name).write_text(content)
    assert written() == files
  (tmp_path / 'figures/line.png').unlink()
  assert written() == files and written() == set()
  assert written(RESULTS.table.assign(note='changed')) == files == written()
  monkeypatch.setattr('robustness.present.publish._source_files', lambda: b'changed')
  assert written() == files and written() == set()


def test_a_figure_that_fails_leaves_the_results(tmp_path):
  with pytest.raises(ZeroDivisionError):
    publish(tmp_path, RESULTS, Presentation('None', figures=lambda _: 1 // 0), MADE_BY, {})
  pd.testing.assert_frame_equal(Results.read(tmp_path).table, RESULTS.table)


@pytest.mark.parametrize(
  'returned', [None, [Figure()], {'error': Figure()}, {'error': (Figure().add_subplot(), 'Axes.')}]
)
def test_figures_of_a_wrong_form_are_refused_and_leave_the_results(tmp_path, returned):
  presentation = Presentation('Mine', figures=lambda _: returned)
  refused(r'\{file name without suffix: \(figure, caption\)\}', presentation.html, RESULTS)
  refused('figures of', presentation.displayed_figures, RESULTS)
  refused('figures of', publish, tmp_path, RESULTS, presentation, MADE_BY, {})
  pd.testing.assert_frame_equal(Results.read(tmp_path).table, RESULTS.table)


SCENES = {'source': 'scenes', 'num_examples': 14, 'objects': 7, 'num_backgrounds': 4}
PAIRS = '14 pairs of an object and a background'
FOLDER = {'source': 'folder', 'path': '/data/photos', 'split': 'test', 'num_examples': 21}


@cases(
  'data, words',
  (SCENES, PAIRS),
  ({**SCENES, 'image_shape': [512, 512, 3]}, f'{PAIRS}, composed to scenes of 512 × 512 pixels'),
  (FOLDER, '21 images of folder photos, split test'),
)
def test_data_are_described_by_number_kind_and_source(data, words):
  assert data_words(data) == words


def test_numbers_of_the_same_images_are_listed_together():
  all_images = {'source': 'tfds', 'name': 'cifar10/3.0.2', 'num_examples': 1000, 'split': 'test'}
  few, training_images = {**all_images, 'num_examples': 40}, {**all_images, 'split': 'train'}
  tasks = {'clean': all_images, 'attack': few, 'errors': all_images, 'scores': training_images}
  counts = '1,000 (clean, errors) and 40 (attack)'
  expected = f'{counts} images of CIFAR-10, split test; 1,000 images of CIFAR-10, split train'
  assert data_words(tasks) == expected
