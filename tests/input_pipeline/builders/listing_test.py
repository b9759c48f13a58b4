"""Tests how TFDS's tools see the builders: lists, names, descriptions, `tfds build`."""

import re
import subprocess
import sys
from typing import Any

import pytest
import simple_parsing
import tensorflow_datasets as tfds
from tensorflow_datasets.scripts.cli import build

from input_pipeline import builders
from input_pipeline.tfds_sets import OWN
from tests.cases import cases
from tests.commands import ROOT
from tests.refusals import refused


def tfds_build(*arguments):
  """Runs the command `tfds build --imports=input_pipeline.builders ARGUMENTS`."""
  parsed: Any = simple_parsing.parse(
    build.Args, args=[*arguments, '--imports=input_pipeline.builders']
  )
  parsed.execute()


def listed_after_importing(*modules):
  """Returns the data sets that TFDS lists in a new process that has imported these modules."""
  code = f"""
import sys
import {', '.join(modules)}, tensorflow_datasets as tfds
names = tfds.list_builders()
assert names == sorted(set(names))
assert not [finder for finder in sys.meta_path if 'input_pipeline' in str(type(finder))]
print(*names)
"""
  process = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True)
  assert process.returncode == 0, process.stderr
  return set(process.stdout.split())


@pytest.mark.slow
def test_importing_the_builders_registers_them_and_importing_the_pipeline_does_not():
  assert {*OWN, 'cifar10'} <= listed_after_importing('input_pipeline.builders')
  assert not set(OWN) & listed_after_importing('input_pipeline')


def test_the_list_of_builders_has_their_names():
  assert {getattr(builders, name).name for name in builders.__all__} == set(OWN)


@pytest.mark.parametrize('name', OWN)
def test_configs_are_listed_and_described(name):
  cls = tfds.builder_cls(name)
  assert cls.builder_config_cls is type(cls.BUILDER_CONFIGS[0])
  assert all(config.description for config in cls.BUILDER_CONFIGS)


@cases(
  'name, key',
  ('corrupted/pictures_fog_3', 'hendrycks2019benchmarking'),
  ('held_out_environments/pictures_rotation', 'omran2022towards'),
  ('si_score_scenes/size', 'yung2021si'),
  ('video_neighbors/ytbb_robust', 'shankar2021image'),
)
def test_every_builder_has_a_description_a_citation_and_a_card(name, key, base_dir):
  info = tfds.builder(name, data_dir=base_dir).info
  assert info.citation.startswith('@') and key in info.citation
  assert info.citation.count('{') == info.citation.count('}')
  assert len(info.description) > 200 and 'example is' in info.description.replace('\n', ' ')
  page = (ROOT / 'docs/datasets.md').read_text(encoding='utf-8')
  card = page.partition(f'## `{info.name}`\n')[2].partition('\n## ')[0]
  rows = dict(re.findall(r'^\| (\w+) \| (.*) \|$', card, re.MULTILINE))
  assert set(rows) == {'configs', 'features', 'splits', 'size', 'licence', 'citation'}
  assert set(info.features) <= set(re.findall(r'`(\w+)`', rows['features']))
  (year,) = re.findall(r'year += \{(\d+)\}', info.citation)
  assert year in rows['citation']


def test_tfds_build_prepares_a_corrupted_set(base_dir):
  tfds_build('corrupted/pictures_brightness_2', f'--data_dir={base_dir}')
  builder = tfds.builder('corrupted/pictures_brightness_2', data_dir=base_dir)
  assert builder.is_prepared() and builder.info.metadata['severity'] == 2


def test_a_misspelt_config_is_refused_before_a_missing_manual_dir(tmp_path):
  message = "no config 'sise', and nothing is prepared under that name; did you mean 'size'"
  refused(message, tfds.builder, 'si_score_scenes/sise', data_dir=tmp_path)
