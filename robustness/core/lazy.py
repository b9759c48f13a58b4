"""Import of a package's attributes at their first use, so that importing the package is fast."""

import importlib
from collections.abc import Callable, Mapping


def attributes(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
  """Returns a module-level `__getattr__` that imports a package's attributes on first use.

  Args:
    package: name of the package.
    modules: {attribute: name of the module that defines it, or of the module that it is}.
  """

  def import_attribute(name: str) -> object:
    """Imports and returns an attribute of the package, as the package's `__getattr__`.

    Args:
      name: name of the attribute. `modules[name]` is the module that defines it, or that it is.

    Raises:
      AttributeError: the package has no such attribute.
    """
    if name not in modules:
      raise AttributeError(f'module {package!r} has no attribute {name!r}')
    module = importlib.import_module(f'{package}.{modules[name]}')
    return vars(module).get(name, module)  # the module itself if it has no such attribute

  return import_attribute
