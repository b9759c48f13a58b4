"""Zero-shot classifiers: CLIP's image tower with class names for a head.

Each class is described by prompts. Its embedding is the mean of the unit-length embeddings of its
prompts, brought to length 1 again; a logit is CLIP's scale times the cosine of image and class,
plus SigLIP's bias, where σ(logit) is the probability that the text is the image's.

python -m robustness.models.zero_shot --architecture=clip_vit_b32 --weights=FILE \
    --classes=CLASSES.txt --templates=TEMPLATES.txt --out=OUT.safetensors

  FILE is a state dict in open_clip's names (OpenAI's own files hold code: load them with open_clip
  and save its state_dict()). CLASSES.txt has one class a line, as the data call it, and after a tab
  what prompts call it where that is another word; 'imagenet' and 'cifar10' take those classes, of
  which open_clip has the words that CLIP's authors chose for ImageNet. TEMPLATES.txt has one
  template a line ('a photo of a {}.'); 'imagenet_80', 'imagenet_7' and 'cifar10_18' are the lists
  that CLIP's authors published. OUT then serves as --config.classifier.weights; it holds how images
  are prepared where a record beside FILE says it. Needs open_clip for its tokenizer (pip install
  '.[clip]'); SigLIP's is --tokenizer=tokenizer.json, which lies beside the weights (and needs the
  package tokenizers).

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

from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.core.rows import check_class_names
from robustness.core.typing import Variables
from robustness.models import catalog, label_space, preprocessing, weights
from robustness.models.architecture import Architecture
from robustness.models.clip import CONTEXT, END_OF_TEXT, Clip, SigLip
from robustness.models.naming import Path, Shape
from robustness.models.state_dict import SAFETENSORS_SUFFIX, read_arrays

TEMPLATES: Sequence[str] = ('a photo of a {}.',)
CIFAR10: Sequence[str] = (
  *('airplane', 'automobile', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck'),
)
PROMPTS_A_STEP = 32


def template_list(name: str) -> list[str]:
  """Returns the templates of a published list, or the lines of a text file.

  Lines of `prompt_templates.txt` are those of the notebooks of openai/CLIP: all 80 of ImageNet, the
  seven of them that its authors found best together, and CIFAR-10's 18.

  Raises:
    InputError: neither a list nor a file.
  """
  text = pathlib.Path(__file__).with_name('prompt_templates.txt').read_text(encoding='utf-8')
  lists: dict[str, list[str]] = {}
  for owner, _, template in (line.partition(' | ') for line in text.splitlines()):
    lists.setdefault(owner, []).append(template)
  if name not in lists and not expanded(name).is_file():
    raise InputError(f'templates {name!r} are neither a file nor a list: {nearest(name, lists)}.')
  return lists[name] if name in lists else _lines(name)


def class_list(name: str) -> tuple[list[str], list[str]]:
  """Returns class names and what prompts call them: of 'imagenet', 'cifar10' or a text file.

  Raises:
    InputError: no such file; open_clip, which has ImageNet's words, is not installed.
  """
  if name == label_space.IMAGENET:
    try:
      from open_clip import IMAGENET_CLASSNAMES
    except (ImportError, RuntimeError) as error:
      raise InputError(
        "the words of ImageNet's classes in prompts come with open_clip: pip install '.[clip]' "
        f'({error}).'
      ) from error
    return list(label_space.get(name).class_names), list(IMAGENET_CLASSNAMES)
  lines = list(CIFAR10) if name == 'cifar10' else _lines(name)
  names = [line.partition('\t')[0].strip() for line in lines]
  return names, [line.rpartition('\t')[2].strip() for line in lines]


def prompts(class_names: Sequence[str], templates: Sequence[str] = TEMPLATES) -> list[list[str]]:
  """Returns the prompts of each class: every template with its name in place of '{}'.

  Raises:
    InputError: texts are missing, empty or given twice, or a template has not exactly one '{}'.
  """
  for what, texts in (('class', class_names), ('template', templates)):
    if not texts or not all(text.strip() for text in texts) or len(set(texts)) < len(texts):
      raise InputError(
        f'{what} texts must be given, none empty and none twice; got '
        f'{weights.first(map(repr, texts)) or "none"}.'
      )
  for template in templates:
    if template.count('{}') != 1:
      raise InputError(f"template {template!r} must hold '{{}}' once, where the class name goes.")
  return [[template.replace('{}', name) for template in templates] for name in class_names]


def tokenize(texts: Sequence[str]) -> np.ndarray:
  """Returns CLIP's token ids int32 [len(texts), 77], by open_clip's tokenizer.

  Raises:
    InputError: open_clip is not installed.
  """
  try:
    from open_clip.tokenizer import SimpleTokenizer
  except (ImportError, RuntimeError) as error:
    raise InputError(
      f"CLIP's tokenizer comes with open_clip: pip install '.[clip]', or give token ids ({error})."
    ) from error
  return SimpleTokenizer()(list(texts), context_length=CONTEXT).numpy().astype(np.int32)


def tokenize_by(file: str, architecture: Architecture, texts: Sequence[str]) -> np.ndarray:
  """Returns token ids int32 [len(texts), context] for SigLIP by a `tokenizer.json`, or CLIP's.

  Texts are in lower case, without punctuation; an end follows the tokens, then padding.

  Raises:
    InputError: the file is missing, or is none or one too many for the architecture; a package is
      not installed.
  """
  if not isinstance(architecture, SigLip):
    if file:
      raise InputError(f'{architecture.name} has its own tokenizer: leave --tokenizer out.')
    return tokenize(texts)
  path, tower = expanded(file), architecture.text
  if not file or not path.is_file():
    raise InputError(
      f'{architecture.name} needs --tokenizer=FILE, the tokenizer.json beside its weights; got '
      f'{file or "none"}.'
    )
  try:
    from tokenizers import Tokenizer
  except ImportError as error:
    raise InputError(f'{path} needs tokenizers: pip install tokenizers.') from error
  tokenizer = Tokenizer.from_file(str(path))
  removed = str.maketrans('_', ' ', string.punctuation.replace('_', ''))
  ids = np.full((len(texts), tower.context), architecture.padding, np.int32)
  for row, text in zip(ids, texts, strict=True):
    plain = ' '.join(text.translate(removed).lower().split())
    found = tokenizer.encode(plain, add_special_tokens=False).ids[: tower.context - 1]
    row[: len(found) + 1] = [*found, END_OF_TEXT]
  return ids


def zero_shot(
  architecture: Architecture, arrays: Mapping[str, np.ndarray], tokens: np.ndarray
) -> Variables:
  """Returns a CLIP image tower's variables with a head for the described classes.

  Args:
    architecture: one of CLIP's image towers.
    arrays: a whole CLIP in open_clip's names, both towers.
    tokens: int [classes, prompts, context], the token ids of each class's prompts.

  Raises:
    InputError: another architecture, weights that do not fit it, or ids that are no tokens.
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
  shapes = {path: s for path, s in architecture.shapes(1).items() if path[1] != 'head'}
  image = weights.restore(architecture.name, shapes, architecture.schemes[0], arrays)
  variables = weights.restore(owner, text_shapes(architecture), architecture.text_scheme, arrays)
  apply, size = jax.jit(tower.apply), min(PROMPTS_A_STEP, tokens.shape[0] * tokens.shape[1])
  flat = tokens.reshape(-1, tower.context).astype(np.int32)
  padded = np.pad(flat, ((0, -len(flat) % size), (0, 0)))
  parts = [apply(variables, part) for part in padded.reshape(-1, size, tower.context)]
  embeddings = _unit(np.concatenate(parts)[: len(flat)])
  embeddings = _unit(embeddings.reshape(*tokens.shape[:2], tower.size).mean(1))
  scale = np.exp(np.float32(np.asarray(arrays['logit_scale']).reshape(())))
  bias = np.asarray(arrays.get('logit_bias', 0.0), np.float32).reshape(())
  head = {
    'kernel': np.ascontiguousarray(scale * embeddings.T),
    'bias': np.full(len(embeddings), bias, np.float32),
  }
  return {**image, 'params': {**image['params'], 'head': {'dense': head}}}


def text_shapes(architecture: Clip) -> dict[Path, Shape]:
  """Returns the shape of every variable of an architecture's text tower by its path."""
  ids = jnp.zeros((1, architecture.text.context), jnp.int32)
  tree = jax.eval_shape(architecture.text.init, jax.random.key(0), ids)
  return {path: leaf.shape for path, leaf in flax.traverse_util.flatten_dict(tree).items()}


def _unit(x: np.ndarray) -> np.ndarray:
  return x / np.linalg.norm(x, axis=-1, keepdims=True)


def main(arguments: Sequence[str] | None = None) -> int:
  """Writes the weights of a zero-shot classifier; see the top of this file."""
  parser = argparse.ArgumentParser(prog='python -m robustness.models.zero_shot')
  for name in ('architecture', 'weights', 'classes', 'out'):
    parser.add_argument(f'--{name}', required=True)
  for name in ('templates', 'tokenizer'):
    parser.add_argument(f'--{name}', default='')
  given = parser.parse_args(arguments)
  try:
    if not given.out.endswith(SAFETENSORS_SUFFIX):
      raise InputError(f'--out={given.out} must end in {SAFETENSORS_SUFFIX}.')
    templates = template_list(given.templates) if given.templates else TEMPLATES
    architecture = catalog.get(given.architecture)
    record = preprocessing.beside(expanded(given.weights), architecture)
    names, words = class_list(given.classes)
    check_class_names(names, f'--classes={given.classes}')
    known = given.classes == label_space.IMAGENET  # in which two pairs of classes share their words
    different = list(dict.fromkeys(words)) if known else words
    texts_of = dict(zip(different, prompts(different, templates), strict=True))
    texts = [texts_of[word] for word in words]
    tokens = np.stack([tokenize_by(given.tokenizer, architecture, own) for own in texts])
    variables = zero_shot(architecture, read_arrays(given.weights), tokens)
    facts = {
      'architecture': architecture.name,
      'class_names': names,
      'templates': list(templates),
      'from_sha256': hashlib.sha256(pathlib.Path(given.weights).read_bytes()).hexdigest(),
      **({'preprocessing': record.preprocessing} if record else {}),
    }
    weights.save_variables(given.out, variables, facts)
  except (InputError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 2
  print(f'{given.out}: {architecture.name} for {len(names)} classes')
  return 0


def _lines(path: str) -> list[str]:
  """Returns the lines of a text file that are not empty."""
  file = expanded(path)
  if not file.is_file():
    raise InputError(f'{path} is no text file.')
  return [
    line.strip() for line in file.read_text(encoding='utf-8-sig').splitlines() if line.strip()
  ]


if __name__ == '__main__':
  sys.exit(main())
