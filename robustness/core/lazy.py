"""Import of a package's attributes at their first use, so that importing the package is fast."""

import importlib
from collections.abc import Callable, Mapping


def attributes(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
  """Returns a function `__getattr__` for a package, which imports an attribute when it is used.

  Args:
    package: the name of the package.
    modules: {attribute: module of the package that defines it}; '' for an attribute that is itself
      a subpackage.
  """

  def import_attribute(name: str) -> object:
    """Returns the attribute `name` of the package; raises AttributeError if it has none."""
    if name not in modules:
      raise AttributeError(f'module {package!r} has no attribute {name!r}')
    if not modules[name]:  # a subpackage
      return importlib.import_module(f'{package}.{name}')
    module = importlib.import_module(f'{package}.{modules[name]}')
    return vars(module).get(name, module)  # the module itself if it has no such attribute

  return import_attribute
