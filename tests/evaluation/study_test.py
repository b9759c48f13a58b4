"""Tests how studies are selected by name, and their default views, facets and recordings."""

import dataclasses
import json
from typing import ClassVar

import numpy as np

from robustness.estimates.table import assemble
from robustness.evaluation import study
from robustness.evaluation.views import Views
from robustness.present import charts, tables
from robustness.results import Results
from robustness.studies import accuracy, fourier_heatmap
from tests.made_records import made
from tests.present.made_results import sentences_of
from tests.refusals import bad_setting, refused


def test_a_section_of_the_config_names_a_study_and_holds_its_settings():
  assert {'accuracy', 'fourier_heatmap'} <= set(study.STUDIES.classes())
  for name in study.STUDIES.classes():
    default = study.from_config({'name': name})
    assert default.name == name and isinstance(default, study.Study)
  assert study.from_config({'name': 'accuracy', 'top_k': 3}) == accuracy.Accuracy(top_k=3)
  parsed = study.from_config({'name': 'fourier_heatmap', 'norm': 4, 'layers': ['stage1']})
  assert parsed == fourier_heatmap.FourierHeatmap(norm=4.0, layers=('stage1',))


def test_the_recording_does_not_depend_on_settings_of_intervals_and_tests():
  for name in study.STUDIES.classes():
    default = study.from_config({'name': name})
    changed = {'confidence': 0.9}
    for key, value in {'false_discovery_rate': 0.1, 'top_k': 2}.items():
      changed |= {key: value} if key in study.default_section(name) else {}
    assert dataclasses.replace(default, **changed).recording == default.recording
    if 'half_width' in study.default_section(name):
      rounds = dataclasses.replace(default, half_width=0.1)
      assert dataclasses.replace(rounds, confidence=0.9).recording != rounds.recording


def test_a_study_that_only_reduces_shows_images_as_they_are():
  @dataclasses.dataclass(frozen=True)
  class Reducing(study.Study):
    name: ClassVar[str] = 'reducing'

    def reduce(self, evaluations, image_shape):
      return study.Findings()

  reducing = Reducing()
  assert (reducing.layers, reducing.outputs, reducing.facts) == ((), (), {})
  views, image = reducing.views((8, 8, 3)), np.ones((8, 8, 3))
  assert len(views) == 1 and views.show(None, {'image': image}, {}) is image
  assert reducing.needs_classifier
  assert reducing.figures(Results('reducing', [], {}, {})) == {}
  assert reducing.sample_arrays(None, None, None) == {}  # type: ignore[arg-type]
  refused(bad_setting('config.study.name', 'reducing'), study.scores_of, reducing, {})


def test_facets_and_descriptions_have_the_decimals_of_the_views():
  @dataclasses.dataclass(frozen=True)
  class Dimmed(study.Study):
    name: ClassVar[str] = 'dimmed'

    def views(self, image_shape):
      dimming = np.array([0.0, 0.1, 0.35], np.float32)
      return Views(lambda key, row, view: row['image'], np.arange(3), {'dimming': dimming})

  assert Dimmed().facets((8, 8, 3)).dimming.tolist() == [0, 0.1, 0.35]
  dimming = np.array([0, 0.35], np.float32)
  parameters = {'fy': np.array([0, -2]), 'dimming': dimming, 'kernel': np.zeros((2, 3))}
  views = Views(lambda *_: None, np.arange(2), parameters)  # type: ignore[arg-type, return-value]
  assert views.describe(1) == 'view 1 (fy=-2, dimming=0.35)'


STUDY_FILE = """
import dataclasses

import numpy as np
import pandas as pd

from robustness.estimates.facets import Facet
from robustness.estimates.quantity import ERROR
from robustness.evaluation.study import Study

GLARE = Facet('glare', 'strength of the glare', 'lux', True, 'in glare of {} lux', 'strengths')


@dataclasses.dataclass(frozen=True)
class Glare(Study):
  quantities = (ERROR,)
  described_facets = (GLARE,)

  def facets(self, image_shape):
    return pd.DataFrame({'glare': [100, 200, 300, 400]})

  def estimates(self, recorded):
    yield self.means(ERROR, recorded, ('glare',))
"""


def test_words_of_a_facet_of_a_users_study_are_read_without_the_file_of_the_study(tmp_path):
  file = tmp_path / 'mine.py'
  file.write_text(STUDY_FILE)
  study_in_file = study.from_config({'name': f'{file}:Glare'})
  wrong = np.arange(40)[:, None] < np.array([4, 10, 20, 30])
  evaluation = made(tmp_path / 'net', {'rank': wrong})
  table = assemble(study_in_file.reduce([evaluation], (8, 8, 3)).estimates)
  described = [{'label': 'net'}]
  results = Results('Glare', described, {}, {}, table=table)
  results.quantities = study_in_file.described_quantities
  results.write(tmp_path)
  file.unlink()
  read = Results.read(tmp_path)
  (titled,) = tables.tables(read)
  assert titled.title.endswith('by strength of the glare')
  assert titled.table.columns[0] == 'strength of the glare (lux)'
  figure, caption = charts.draw(read)['error_glare']
  assert figure.get_supxlabel() == 'strength of the glare (lux)'
  assert 'by strength of the glare' in caption
  (text,) = sentences_of(read)
  assert 'in glare of 400 lux' in text and 'of 4 strengths' in text
  document = json.loads((tmp_path / 'results.json').read_text())
  (words,) = document['facet_words']['']
  assert (words['name'], words['unit']) == ('glare', 'lux')
  del document['facet_words']  # results of an earlier version have none
  (tmp_path / 'results.json').write_text(json.dumps(document))
  earlier = Results.read(tmp_path)
  assert [titled.table.columns[0] for titled in tables.tables(earlier)] == ['glare']
  described = earlier.with_facets(study_in_file.described_facets)
  assert next(tables.tables(described)).table.columns[0] == 'strength of the glare (lux)'
