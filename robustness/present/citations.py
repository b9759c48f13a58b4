"""How to cite what was run: BibTeX of the papers that studies are from, and of this software."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from robustness import __version__

Entry = Mapping[str, str]

PAPERS: Mapping[str, tuple[str, Entry]] = {
  'yin2019fourier': (
    'inproceedings',
    {
      'author': 'Yin, Dong and Gontijo Lopes, Raphael and Shlens, Jonathon and Cubuk, Ekin D. and '
      'Gilmer, Justin',
      'title': 'A {F}ourier Perspective on Model Robustness in Computer Vision',
      'booktitle': 'Advances in Neural Information Processing Systems 32',
      'year': '2019',
    },
  ),
  'shankar2021image': (
    'inproceedings',
    {
      'author': 'Shankar, Vaishaal and Dave, Achal and Roelofs, Rebecca and Ramanan, Deva and '
      'Recht, Benjamin and Schmidt, Ludwig',
      'title': 'Do Image Classifiers Generalize Across Time?',
      'booktitle': 'IEEE/CVF International Conference on Computer Vision',
      'year': '2021',
    },
  ),
  'yung2021si': (
    'article',
    {
      'author': 'Yung, Jessica and Romijnders, Rob and Kolesnikov, Alexander and Beyer, Lucas and '
      'Djolonga, Josip and Houlsby, Neil and Gelly, Sylvain and Lucic, Mario and Zhai, Xiaohua',
      'title': '{SI-Score}: An image dataset for fine-grained analysis of robustness to object '
      'location, rotation and size',
      'journal': 'arXiv preprint arXiv:2104.04191',
      'year': '2021',
    },
  ),
  'djolonga2021robustness': (
    'inproceedings',
    {
      'author': 'Djolonga, Josip and Yung, Jessica and Tschannen, Michael and Romijnders, Rob and '
      'Beyer, Lucas and Kolesnikov, Alexander and Puigcerver, Joan and Minderer, Matthias and '
      "D'Amour, Alexander and Moldovan, Dan and Gelly, Sylvain and Houlsby, Neil and Zhai, "
      'Xiaohua and Lucic, Mario',
      'title': 'On Robustness and Transferability of Convolutional Neural Networks',
      'booktitle': 'IEEE/CVF Conference on Computer Vision and Pattern Recognition',
      'year': '2021',
    },
  ),
  'omran2022towards': (
    'inproceedings',
    {
      'author': 'Omran, Mohamed and Schiele, Bernt',
      'title': 'Towards Systematic Robustness for Scalable Visual Recognition',
      'booktitle': 'ICML 2022 Workshop "Shift happens"',
      'year': '2022',
    },
  ),
  'hendrycks2019benchmarking': (
    'inproceedings',
    {
      'author': 'Hendrycks, Dan and Dietterich, Thomas',
      'title': 'Benchmarking Neural Network Robustness to Common Corruptions and Perturbations',
      'booktitle': 'International Conference on Learning Representations',
      'year': '2019',
    },
  ),
  'ovadia2019can': (
    'inproceedings',
    {
      'author': 'Ovadia, Yaniv and Fertig, Emily and Ren, Jie and Nado, Zachary and Sculley, D. '
      'and Nowozin, Sebastian and Dillon, Joshua V. and Lakshminarayanan, Balaji and Snoek, Jasper',
      'title': "Can You Trust Your Model's Uncertainty? Evaluating Predictive Uncertainty Under "
      'Dataset Shift',
      'booktitle': 'Advances in Neural Information Processing Systems 32',
      'year': '2019',
    },
  ),
  'madry2018towards': (
    'inproceedings',
    {
      'author': 'Madry, Aleksander and Makelov, Aleksandar and Schmidt, Ludwig and Tsipras, '
      'Dimitris and Vladu, Adrian',
      'title': 'Towards Deep Learning Models Resistant to Adversarial Attacks',
      'booktitle': 'International Conference on Learning Representations',
      'year': '2018',
    },
  ),
}
"""By key, the kind of entry and its fields; those of CITATION.cff and what studies build on."""

SOFTWARE = (
  'software',
  {
    'author': '{The authors}',
    'title': 'classifier-robustness: how robust image classifiers are, measured in {JAX}',
    'version': __version__,
  },
)


def bibtex(papers: Iterable[str]) -> str:
  """Returns the entries of papers by key, and below them that of this software."""
  entries = [_entry(key, *PAPERS[key]) for key in papers]
  return '\n'.join([*entries, _entry('classifier_robustness', *SOFTWARE)])


def _entry(key: str, kind: str, fields: Entry) -> str:
  lines = ',\n'.join(f'  {name:<9} = {{{value}}}' for name, value in fields.items())
  return f'@{kind}{{{key},\n{lines}\n}}\n'
