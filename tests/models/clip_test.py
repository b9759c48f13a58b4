"""Tests zero-shot classifiers of CLIP and SigLIP against open_clip, and the command for them."""

import dataclasses
import functools
import hashlib
import json
import pathlib
import sys

import jax
import numpy as np
import pytest
import safetensors.numpy

from robustness.models import catalog, clip, hub, weights, zero_shot
from tests.cases import cases
from tests.models.peers import peer
from tests.networks import imported
from tests.refusals import refused

NETWORKS = {'clip_rn50': 'RN50', 'clip_vit_b32_quickgelu': 'ViT-B-32-quickgelu'}
NAMES = ('cat', 'fire truck', 'cauliflower')
TEMPLATES = ('a photo of a {}.', 'art of the {}')
"""Our networks that are compared, and their names in open_clip."""
VIT = 'clip_vit_b32_quickgelu'
RN50 = catalog.get('clip_rn50')
WIDTH = 64
"""Width of the thin SigLIP networks."""
SIGLIPS = [name for name in catalog.ARCHITECTURES if name.startswith('siglip')]


@functools.cache
def open_clip_network(name):
  """Returns open_clip's network of one of our names, every parameter and statistic random."""
  torch = peer('torch')
  network = peer('open_clip').model.CLIP(**peer('open_clip').get_model_config(NETWORKS[name]))
  generator = torch.Generator().manual_seed(3)
  for parameter in network.parameters():
    size = 0.02 if parameter.ndim > 1 else 0.1
    parameter.data += size * torch.randn(parameter.shape, generator=generator)
  for key, value in network.named_buffers():
    if key.endswith(('running_mean', 'running_var')):
      value.copy_((key.endswith('var') + torch.rand(value.shape, generator=generator)) / 2)
  return network.eval()


def arrays(network):
  """Returns a copy of a network's state dict, as NumPy arrays."""
  return {name: tensor.numpy().copy() for name, tensor in network.state_dict().items()}


def tokens(prompts=2):
  """Returns token ids [3 classes, prompts, 77] as the tokenizer makes them.

  A text is a start, random words, an end and zeros.
  """
  generator, ids = np.random.default_rng(1), np.zeros((3, prompts, 77), np.int32)
  for index in np.ndindex(3, prompts):
    length = generator.integers(3, 60)
    ids[index][:length] = generator.integers(1, 49_000, length)
    ids[index][0], ids[index][length] = 49_406, 49_407
  return ids


@pytest.mark.parametrize('name', NETWORKS)
def test_zero_shot_logits_equal_those_of_open_clip(name):
  torch, network, ids = peer('torch'), open_clip_network(name), tokens()
  x = np.random.default_rng(5).normal(size=(2, 224, 224, 3)).astype(np.float32)
  normalize = torch.nn.functional.normalize
  with torch.inference_mode():
    image = network.encode_image(torch.from_numpy(x.transpose(0, 3, 1, 2).copy()), normalize=True)
    text = [
      network.encode_text(torch.from_numpy(class_tokens).long(), normalize=True)
      for class_tokens in ids
    ]
    classes = torch.stack([normalize(class_tokens.mean(0), dim=-1) for class_tokens in text])
    theirs = (network.logit_scale.exp() * image @ classes.T).numpy()
  variables = zero_shot.zero_shot(catalog.get(name), arrays(network), ids)
  ours = np.asarray(jax.jit(catalog.get(name).build(3).apply)(variables, x))
  assert ours.shape == theirs.shape
  assert np.abs(ours - theirs).max() <= 1e-4 * np.abs(theirs).max()


def test_weights_of_prompt_ensembles_equal_those_of_open_clip():
  library, network = peer('open_clip'), open_clip_network(VIT)
  names, templates = ['tabby cat', 'sports car', 'jay'], zero_shot.template_list('imagenet_7')
  arguments = (network, library.get_tokenizer('ViT-B-32-quickgelu'), names)
  theirs = library.build_zero_shot_classifier(*arguments, library.SIMPLE_IMAGENET_TEMPLATES).numpy()
  ids = np.stack([zero_shot.tokenize(texts) for texts in zero_shot.prompts(names, templates)])
  variables = zero_shot.zero_shot(catalog.get(VIT), arrays(network), ids)
  scale = network.logit_scale.exp().item()
  ours = variables['params']['head']['dense']['kernel'] / scale
  assert ours.shape == theirs.shape == (512, 3) and np.ptp(theirs) > 0.01
  np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_the_lists_of_imagenet_equal_those_of_open_clip():
  library = peer('open_clip')
  published = (library.OPENAI_IMAGENET_TEMPLATES, library.SIMPLE_IMAGENET_TEMPLATES)
  for name, templates in zip(('imagenet_80', 'imagenet_7'), published, strict=True):
    assert zero_shot.template_list(name) == [template('{}') for template in templates]
  names, words = zero_shot.class_list('imagenet')
  assert words == list(library.IMAGENET_CLASSNAMES) and len(set(names)) == 1000
  assert (names[0], words[0], words[281]) == ('tench', 'tench', 'tabby cat')


def test_templates_and_classes_come_from_a_named_list_or_a_file(tmp_path):
  templates = zero_shot.template_list('cifar10_18')
  assert len(set(templates)) == 18 and all(text.count('{}') == 1 for text in templates)
  # 9 templates with 'a' in front of the class, then the same with 'the'
  assert set(templates[9:]) == {
    text.replace('photo of a', 'photo of the') for text in templates[:9]
  }
  file = tmp_path / 'mine.txt'
  file.write_text('a {}\n\nthe {}\n')
  assert zero_shot.template_list(str(file)) == ['a {}', 'the {}']
  assert zero_shot.class_list('cifar10')[0][:2] == ['airplane', 'automobile']
  file.write_text('owl\n', encoding='utf-8-sig')
  assert zero_shot.class_list(str(file)) == (['owl'], ['owl'])
  message = "neither a file nor a list: did you mean 'imagenet_80'"
  refused(message, zero_shot.template_list, 'imagenet80')


def test_the_tokenizer_and_prompts_make_token_ids():
  peer('open_clip')
  texts = zero_shot.prompts(NAMES, TEMPLATES)
  assert texts[1] == ['a photo of a fire truck.', 'art of the fire truck']
  ids = zero_shot.tokenize(texts[1])
  assert ids.shape == (2, clip.CONTEXT) and ids.dtype == np.int32
  assert (ids[:, 0] == 49_406).all() and (ids.max(1) == 49_407).all(), 'a start and an end'
  assert not ids[:, -1].any()


@cases(
  'names, templates, message',
  ((), TEMPLATES, 'class texts.*none'),
  (('cat', ' '), TEMPLATES, "class texts.*none empty.*' '"),
  (('cat', 'cat'), TEMPLATES, 'none twice'),
  (NAMES, (), 'template texts.*none'),
  (NAMES, ('a photo',), r"template 'a photo' must hold '\{\}' once"),
  (NAMES, ('{} {}',), 'once'),
)
def test_bad_prompts_are_refused(names, templates, message):
  refused(message, zero_shot.prompts, names, templates)


@functools.cache
def zeros(name='clip_rn50'):
  """Returns the arrays of a CLIP by open_clip's names, of zeros, both towers."""
  architecture = catalog.get(name)
  image = architecture.schemes[0].shapes(architecture.shapes(1))
  text = clip.TEXT_SCHEME.shapes(zero_shot.text_shapes(architecture))
  shapes = {key: s for key, s in {**image, **text}.items() if not key.startswith(clip.HEAD)}
  arrays = {key: np.zeros(shape, np.float32) for key, shape in shapes.items()}
  return {**arrays, 'logit_scale': np.asarray(2.0, np.float32)}


def without(*prefixes):
  """Returns `zeros` but for the arrays with one of these prefixes."""
  return {name: value for name, value in zeros().items() if not name.startswith(prefixes)}


@pytest.fixture
def small_catalog(monkeypatch):
  """Leaves the networks of these tests in the catalog: to compare each takes a second."""
  networks = {name: catalog.get(name) for name in ('clip_rn50', 'clip_vit_b32', 'resnet20')}
  monkeypatch.setattr(catalog, 'ARCHITECTURES', networks)


@pytest.mark.usefixtures('small_catalog')
@cases(
  'change, message',
  (
    lambda: {'arrays': zeros('clip_vit_b32')},
    r"do not fit clip_rn50: .*visual.layer1.*nearest architecture is 'clip_vit_b32'",
  ),
  (lambda: {'architecture': catalog.get('resnet20')}, 'resnet20 has no text tower'),
  (
    lambda: {'arrays': without('transf', 'token', 'position', 'ln_final', 'text')},
    'do not fit the text tower of clip_rn50: 149 missing: transf',
  ),
  (lambda: {'arrays': without('logit_scale')}, 'no logit_scale'),
  (
    lambda: {'arrays': {**zeros(), 'text_projection': np.zeros((512, 1024), np.int8)}},
    'text_projection is int8',
  ),
  (lambda: {'ids': np.zeros((3, 77), int)}, r'shape \(3, 77\), not \[classes, prompts, 77\]'),
  (lambda: {'ids': np.zeros((3, 2, 76), int)}, r'shape \(3, 2, 76\)'),
  (lambda: {'ids': np.full((3, 2, 77), 49_408)}, r'in \[49408, 49408\].*\[0, 49408\)'),
  (lambda: {'ids': np.zeros((3, 2, 77))}, 'tokens are float64'),
)
def test_weights_and_tokens_that_do_not_fit_are_refused(change, message):
  arguments = {'architecture': RN50, 'arrays': zeros(), 'ids': tokens(), **change()}
  refused(message, zero_shot.zero_shot, *arguments.values())


@pytest.mark.slow
def test_the_command_writes_weights_that_load_without_torch(tmp_path, monkeypatch):
  monkeypatch.setattr(zero_shot, 'tokenize', lambda texts: tokens(len(texts))[0])
  generator = np.random.default_rng(0)
  arrays = {name: 0.02 * generator.normal(size=value.shape) for name, value in zeros().items()}
  arrays = {name: np.asarray(value, np.float32) for name, value in arrays.items()}
  monkeypatch.chdir(tmp_path)
  safetensors.numpy.save_file(arrays, 'clip.safetensors')
  pathlib.Path('classes.txt').write_text('\n'.join(NAMES))
  preprocessing = {'mean': [0.5] * 3, 'std': [0.25] * 3, 'resize_mode': 'squash'}
  record = {'model_cfg': {'vision_cfg': {'image_size': 224}}, 'preprocess_cfg': preprocessing}
  pathlib.Path('open_clip_config.json').write_text(json.dumps(record))
  out = 'head.safetensors'
  arguments = ['--architecture=clip_rn50', '--weights=clip.safetensors', f'--out={out}']
  assert zero_shot.main([*arguments, '--classes=classes.txt']) == 0
  variables = weights.load(out, RN50, num_classes=3)
  lengths = np.linalg.norm(variables['params']['head']['dense']['kernel'], axis=0)
  np.testing.assert_allclose(lengths, np.exp(arrays['logit_scale']), rtol=1e-5)
  facts, content = weights.load_variables(out)[1], pathlib.Path('clip.safetensors').read_bytes()
  assert facts['class_names'] == list(NAMES)
  pathlib.Path('elsewhere').mkdir()
  entry = hub.resolve(str(pathlib.Path(out).rename(f'elsewhere/{out}')), RN50)
  assert entry and (entry.mean, entry.std) == ((0.5,) * 3, (0.25,) * 3)
  assert entry.squash and entry.resize == 224 and entry.record == 'its metadata'
  assert facts['from_sha256'] == hashlib.sha256(content).hexdigest()


def test_the_command_names_files_that_it_cannot_read(capsys):
  arguments = ('--architecture=clip_rn50', '--weights=none', '--classes=none.txt')
  assert zero_shot.main((*arguments, '--out=none')) == 2
  assert '--out=none must end in .safetensors' in capsys.readouterr().err
  assert zero_shot.main((*arguments, '--out=none.safetensors')) == 2
  assert 'none.txt is no text file' in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures('small_catalog')
def test_a_missing_head_or_tokenizer_is_explained(monkeypatch):
  message = r'2 missing: zero_shot_head.*robustness.models.zero_shot'
  arrays = without('transformer.', 'token_embedding')  # of the text tower, most of the file
  refused(message, imported, RN50, arrays, 3)
  assert 'head' not in imported(RN50, arrays)['params']
  monkeypatch.setitem(sys.modules, 'open_clip.tokenizer', None)
  refused(r"pip install '\.\[clip\]', or give token ids", zero_shot.tokenize, ['a cat'])


def thin_siglip(name):
  """Returns an architecture of SigLIP with towers of 2 layers, width `WIDTH` and 50 words."""
  architecture = catalog.get(name)
  hidden = int(WIDTH * architecture.network.hidden / architecture.network.width)
  network = architecture.network.clone(width=WIDTH, depth=2, num_heads=2, hidden=hidden)
  sizes = {'size': WIDTH, 'width': WIDTH, 'depth': 2, 'num_heads': 1, 'hidden': hidden}
  text = architecture.text.clone(vocabulary=50, **sizes)
  return dataclasses.replace(architecture, name=f'thin_{name}', network=network, text=text)


@pytest.mark.parametrize('name', SIGLIPS)
def test_zero_shot_logits_of_siglip_match_the_towers_of_timm_and_open_clip(name):
  torch = peer('torch')
  from tests.models import parity, peer_networks

  architecture = thin_siglip(name)
  is_tanh = architecture.text.activation == 'tanh_gelu'
  activation = torch.nn.GELU(approximate='tanh' if is_tanh else 'none')
  text = peer('open_clip').transformer.TextTransformer(
    context_length=architecture.text.context,
    mlp_ratio=architecture.network.hidden / architecture.network.width,
    vocab_size=50,
    width=WIDTH,
    heads=1,
    layers=2,
    output_dim=WIDTH,
    no_causal_mask=True,
    pool_type='last',
    proj_bias=True,
    act_layer=lambda: activation,
    norm_layer=lambda width: torch.nn.LayerNorm(width, eps=1e-6),
  )
  side = architecture.input_shape[0]
  size = 'so400m' if 'so400m' in name else 'base'
  timm_name = f'vit_{size}_patch{architecture.network.patch}_siglip_224'
  thin = {'embed_dim': WIDTH, 'depth': 2, 'num_heads': 2}
  image = peer_networks.siglip_tower(3, side, timm_name, **thin).eval()
  text, image = parity.randomise(text.eval(), 1), parity.randomise(image, 2)
  arrays = {f'text.{key}': value for key, value in parity.arrays(text).items()}
  arrays |= {k: v for k, v in parity.arrays(image).items() if k.startswith('visual.')}
  arrays |= {'logit_scale': np.float32(2.0), 'logit_bias': np.float32(-9.5)}
  ids = np.random.default_rng(0).integers(0, 50, (3, 2, architecture.text.context)).astype(np.int32)
  x = parity.images(2, side, side, 3)
  normalize = functools.partial(torch.nn.functional.normalize, dim=-1)
  with torch.inference_mode():
    classes = [
      normalize(normalize(text(torch.from_numpy(class_tokens).long())).mean(0))
      for class_tokens in ids
    ]
    images = normalize(image.visual['trunk'](parity.torch_images(x)))
    theirs = (np.exp(2.0) * images @ torch.stack(classes).T - 9.5).numpy()
  ours = jax.jit(architecture.build(3).apply)(zero_shot.zero_shot(architecture, arrays, ids), x)
  parity.assert_small({'logits': parity.difference(np.asarray(ours) + 9.5, theirs + 9.5)})
  refused(
    rf'\[classes, prompts, {architecture.text.context}\]',
    zero_shot.zero_shot,
    architecture,
    arrays,
    ids[..., :-1],
  )


def tokenizer_file(tmp_path):
  """Writes a tokenizer of three words, an end, padding and '?' for others; returns its path."""
  tokenizers = pytest.importorskip('tokenizers', reason='the ids are made by tokenizers')
  words = {'<pad>': 0, '</s>': 1, '?': 2, 'a': 3, 'fire': 4, 'truck': 5}
  tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token='?'))
  tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
  tokenizer.save(str(tmp_path / 'tokenizer.json'))
  return str(tmp_path / 'tokenizer.json')


@cases('name, padding', ('siglip_b16', 1), ('siglip2_b16', 0))
def test_texts_of_siglip_are_lower_case_words_with_an_end_and_padding(name, padding, tmp_path):
  file, architecture = tokenizer_file(tmp_path), catalog.get(name)
  ids = zero_shot.tokenize_by(file, architecture, ['A fire_truck!', 'a ' * 70])
  assert ids.shape == (2, 64) and ids.dtype == np.int32
  assert ids[0].tolist() == [3, 4, 5, 1] + [padding] * 60
  assert ids[1].tolist() == [3] * 63 + [1]


@cases(
  'name, file, message',
  ('siglip_b16', '', 'needs --tokenizer=FILE.*got none'),
  ('siglip_b16', 'nowhere.json', 'got nowhere.json'),
  ('clip_vit_b32', 'tokenizer.json', 'has its own tokenizer: leave'),
)
def test_a_missing_or_unneeded_tokenizer_is_refused(name, file, message):
  refused(message, zero_shot.tokenize_by, file, catalog.get(name), ['a cat'])
