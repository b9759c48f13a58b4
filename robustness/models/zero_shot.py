"""Zero-shot classifiers: an image tower of CLIP with a last layer made from class names.

Texts (prompts) describe each class, such as 'a photo of a dog.'. The embedding of a class is the
mean of the embeddings of its prompts, each scaled to length 1, and is then scaled to length 1 too.
A logit is CLIP's scale times the cosine of the embeddings of image and class, plus SigLIP's bias.
For SigLIP, the logistic function of the logit is the probability that text and image match.

python -m robustness.models.zero_shot --architecture=clip_vit_b32 --weights=FILE \
    --classes=CLASSES.txt --templates=TEMPLATES.txt --out=OUT.safetensors

  FILE is a state dict in open_clip's names (OpenAI's own files hold code: load them with open_clip
  and save its state_dict()). CLASSES.txt has one class a line: the data's name, and after a tab the
  word for prompts if it differs; 'imagenet' and 'cifar10' stand for their classes. open_clip has
  the words that CLIP's authors chose for ImageNet. TEMPLATES.txt has one template a line ('a photo
  of a {}.'); 'imagenet_80', 'imagenet_7' and 'cifar10_18' are the lists that CLIP's authors
  published. OUT then serves as --config.classifier.weights; it holds the preparation of images if a
  record next to FILE states it. The command needs open_clip for its tokenizer (pip install
  '.[clip]'). SigLIP's tokenizer is --tokenizer=tokenizer.json, which is published with the weights
  and needs the package tokenizers.

Reference: Radford et al., Learning Transferable Visual Models From Natural Language Supervision,
2021, section 3.1.4.
"""

import argparse
import hashlib
import pathlib
import string
import sys
from collections.abc import Mapping, Sequence

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError, first_names, importing, nearest
from robustness.core.paths import expanded
from robustness.core.rows import check_class_names
from robustness.core.typing import Variables
from robustness.models import catalog, label_space, preprocessing, weights
from robustness.models.architecture import Architecture
from robustness.models.clip import CONTEXT, END_OF_TEXT, Clip, SigLip, TextTower
from robustness.models.naming import Path, Shape
from robustness.models.state_dict import SAFETENSORS_SUFFIX, read_arrays

TEMPLATES: Sequence[str] = ('a photo of a {}.',)
CIFAR10 = ['airplane', 'automobile', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck']
PROMPTS_PER_STEP = 32
"""Number of prompts that the text tower embeds at a time."""


def template_list(name: str) -> list[str]:
  """Returns prompt templates, such as 'a photo of a {}.', of a published list or a text file.

  Args:
    name: 'imagenet_80', 'imagenet_7' or 'cifar10_18' for lists of CLIP's authors, or the path of a
      file with one template a line.

  Raises:
    InputError: `name` is neither a list nor a file.
  """
  text = pathlib.Path(__file__).with_name('prompt_templates.txt').read_text(encoding='utf-8')
  lists: dict[str, list[str]] = {}
  for line in text.splitlines():
    list_name, _, template = line.partition(' | ')
    lists.setdefault(list_name, []).append(template)
  if name not in lists and not expanded(name).is_file():
    raise InputError(f'templates {name!r} are neither a file nor a list: {nearest(name, lists)}.')
  return lists[name] if name in lists else _lines(name)


def class_list(name: str) -> tuple[list[str], list[str]]:
  """Reads class names and the words that stand for them in prompts.

  Args:
    name: 'imagenet', 'cifar10' or the path of a text file. Each line of the file has a class name,
      and after a tab the word for prompts if it differs.

  Returns:
    (class names, words), in the same order.

  Raises:
    InputError: the file does not exist, or open_clip is not installed, which has ImageNet's words.
  """
  if name == label_space.IMAGENET:
    with importing("ImageNet's words in prompts come with open_clip: pip install '.[clip]'"):
      from open_clip import IMAGENET_CLASSNAMES
    return list(label_space.get(name).class_names), list(IMAGENET_CLASSNAMES)
  lines = CIFAR10 if name == 'cifar10' else _lines(name)
  names = [line.partition('\t')[0].strip() for line in lines]
  words = [line.rpartition('\t')[2].strip() for line in lines]  # all of a line without a tab
  return names, words


def prompts(class_names: Sequence[str], templates: Sequence[str] = TEMPLATES) -> list[list[str]]:
  """Returns the prompts of each class: all templates with the class name in place of '{}'.

  Raises:
    InputError: there are no names or templates, one is empty or occurs twice, or a template does
      not have exactly one '{}'.
  """
  for kind, texts in (('class', class_names), ('template', templates)):
    if not texts or not all(text.strip() for text in texts) or len(set(texts)) < len(texts):
      raise InputError(
        f'{kind} texts must be given, none empty and none twice; got '
        f'{first_names([*map(repr, texts)]) or "none"}.'
      )
  for template in templates:
    if template.count('{}') != 1:
      raise InputError(f"template {template!r} must hold '{{}}' once, where the class name goes.")
  return [[template.replace('{}', name) for template in templates] for name in class_names]


def tokenize(texts: Sequence[str]) -> np.ndarray:
  """Tokenizes texts for CLIP by open_clip: returns ids int32 [len(texts), 77].

  Raises:
    InputError: open_clip is not installed.
  """
  install = "pip install '.[clip]', or give token ids"
  with importing(f"CLIP's tokenizer comes with open_clip: {install}"):
    from open_clip.tokenizer import SimpleTokenizer
  return SimpleTokenizer()(list(texts), context_length=CONTEXT).numpy().astype(np.int32)


def tokenize_by(file: str, architecture: Architecture, texts: Sequence[str]) -> np.ndarray:
  """Tokenizes texts for CLIP or SigLIP.

  SigLIP's texts are first converted to lower case without punctuation.

  Args:
    file: path of SigLIP's `tokenizer.json`; '' for CLIP, which has a fixed tokenizer.
    architecture: the architecture of CLIP or SigLIP.
    texts: the texts.

  Returns:
    Token ids, int32 [len(texts), context].

  Raises:
    InputError: the file is missing or not for this architecture, or a package is not installed.
  """
  if not isinstance(architecture, SigLip):
    if file:
      raise InputError(f'{architecture.name} has its own tokenizer: leave --tokenizer out.')
    return tokenize(texts)
  path, tower = expanded(file), architecture.text
  if not file or not path.is_file():
    raise InputError(
      f'{architecture.name} needs --tokenizer=FILE, its tokenizer.json; got {file or "none"}.'
    )
  with importing(f'{path} needs tokenizers: pip install tokenizers'):
    from tokenizers import Tokenizer
  tokenizer = Tokenizer.from_file(str(path))
  # an underscore becomes a space, and all other punctuation is removed
  translation = str.maketrans('_', ' ', string.punctuation.replace('_', ''))
  ids = np.full((len(texts), tower.context), architecture.padding, np.int32)
  for row, text in zip(ids, texts, strict=True):
    plain = ' '.join(text.translate(translation).lower().split())
    tokens = tokenizer.encode(plain, add_special_tokens=False).ids[: tower.context - 1]
    row[: len(tokens) + 1] = [*tokens, END_OF_TEXT]
  return ids


def zero_shot(
  architecture: Architecture, arrays: Mapping[str, np.ndarray], tokens: np.ndarray
) -> Variables:
  """Returns the variables of a CLIP image tower with a head made from prompts of the classes.

  Args:
    architecture: one of CLIP's or SigLIP's image towers.
    arrays: the arrays of both towers in open_clip's names.
    tokens: token ids of each class's prompts, int [classes, prompts, context].

  Raises:
    InputError: the architecture has no text tower, or weights or ids do not fit it.
  """
  if not isinstance(architecture, Clip):
    raise InputError(
      f'{architecture.name} has no text tower: zero-shot heads are for the '
      'architectures whose names begin with clip_ or siglip.'
    )
  tower, owner = architecture.text, f'the text tower of {architecture.name}'
  if tokens.ndim != 3 or tokens.shape[2] != tower.context or not tokens.size:
    raise InputError(f'tokens have shape {tokens.shape}, not [classes, prompts, {tower.context}].')
  if tokens.dtype.kind not in 'iu' or tokens.min() < 0 or tokens.max() >= tower.vocabulary:
    raise InputError(
      f'tokens are {tokens.dtype} in [{tokens.min()}, {tokens.max()}]; they must be '
      f'integers in [0, {tower.vocabulary}).'
    )
  if 'logit_scale' not in arrays:
    raise InputError('the weights have no logit_scale: give those of a whole CLIP.')
  # without the head, which is computed below; only its shapes depend on the number of classes, 1
  shapes = {path: shape for path, shape in architecture.shapes(1).items() if path[1] != 'head'}
  [image_scheme] = architecture.schemes
  image_variables = weights.restore(architecture.name, shapes, image_scheme, arrays)
  variables = weights.restore(owner, text_shapes(architecture), architecture.text_scheme, arrays)
  embeddings = _class_embeddings(tower, variables, tokens)
  scale = np.exp(np.float32(np.asarray(arrays['logit_scale']).reshape(())))  # stored as its log
  bias = np.asarray(arrays.get('logit_bias', 0.0), np.float32).reshape(())
  head = {
    'kernel': np.ascontiguousarray(scale * embeddings.T),
    'bias': np.full(len(embeddings), bias, np.float32),
  }
  return {**image_variables, 'params': {**image_variables['params'], 'head': {'dense': head}}}


def text_shapes(architecture: Clip) -> dict[Path, Shape]:
  """Returns {path: shape} of the variables of an architecture's text tower."""
  ids = jnp.zeros((1, architecture.text.context), jnp.int32)
  tree = jax.eval_shape(architecture.text.init, jax.random.key(0), ids)
  return {path: leaf.shape for path, leaf in flax.traverse_util.flatten_dict(tree).items()}


def _class_embeddings(tower: TextTower, variables: Variables, tokens: np.ndarray) -> np.ndarray:
  """Computes an embedding of length 1 for each class, [classes, E].

  It is the mean of the embeddings, also of length 1, of the class's prompts.

  Args:
    tower: the text tower.
    variables: its variables.
    tokens: token ids of each class's prompts, int [classes, prompts, context].
  """
  num_classes, num_prompts, context = tokens.shape
  flat = tokens.reshape(-1, context).astype(np.int32)
  size = min(PROMPTS_PER_STEP, len(flat))
  padded = np.pad(flat, ((0, -len(flat) % size), (0, 0)))  # to steps of equal size
  apply = jax.jit(tower.apply)
  steps = [apply(variables, step) for step in padded.reshape(-1, size, context)]
  prompt_embeddings = _unit_rows(np.concatenate(steps)[: len(flat)])
  return _unit_rows(prompt_embeddings.reshape(num_classes, num_prompts, -1).mean(1))


def _unit_rows(x: np.ndarray) -> np.ndarray:
  """Scales the rows of `x` [..., E] to length 1."""
  return x / np.linalg.norm(x, axis=-1, keepdims=True)


def main(arguments: Sequence[str] | None = None) -> int:
  """Writes the weights of a zero-shot classifier, and returns the exit status.

  Args:
    arguments: words of the command line, such as '--architecture=clip_vit_b32', see the top of this
      file. None takes them from the process.
  """
  parser = argparse.ArgumentParser(prog='python -m robustness.models.zero_shot')
  for name in ('architecture', 'weights', 'classes', 'out'):
    parser.add_argument(f'--{name}', required=True)
  for name in ('templates', 'tokenizer'):
    parser.add_argument(f'--{name}', default='')
  args = parser.parse_args(arguments)
  try:
    if not args.out.endswith(SAFETENSORS_SUFFIX):
      raise InputError(f'--out={args.out} must end in {SAFETENSORS_SUFFIX}.')
    templates = template_list(args.templates) if args.templates else TEMPLATES
    architecture = catalog.get(args.architecture)
    record = preprocessing.record_of(expanded(args.weights), architecture)
    names, words = class_list(args.classes)
    check_class_names(names, f'--classes={args.classes}')
    distinct_words = words
    if args.classes == label_space.IMAGENET:  # two pairs of its classes share their words
      distinct_words = list(dict.fromkeys(words))  # `prompts` refuses repetitions
    prompts_by_word = dict(zip(distinct_words, prompts(distinct_words, templates), strict=True))
    texts = [prompts_by_word[word] for word in words]
    tokens = np.stack([tokenize_by(args.tokenizer, architecture, group) for group in texts])
    variables = zero_shot(architecture, read_arrays(args.weights), tokens)
    facts: dict[str, object] = {
      'architecture': architecture.name,
      'class_names': names,
      'templates': list(templates),
      'from_sha256': hashlib.sha256(pathlib.Path(args.weights).read_bytes()).hexdigest(),
    }
    if record:
      facts['preprocessing'] = record.preprocessing
    weights.save_variables(args.out, variables, facts)
  except (InputError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 2
  print(f'{args.out}: {architecture.name} for {len(names)} classes')
  return 0


def _lines(path: str) -> list[str]:
  """Returns the lines of a text file without empty lines.

  Raises:
    InputError: there is no such file.
  """
  file = expanded(path)
  if not file.is_file():
    raise InputError(f'{path} is no text file.')
  text = file.read_text(encoding='utf-8-sig')
  return [line.strip() for line in text.splitlines() if line.strip()]


if __name__ == '__main__':
  sys.exit(main())
