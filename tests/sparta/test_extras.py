import sys
from importlib.metadata import metadata

import pytest

from sparta.errors import InputError
from sparta.extras import EXTRAS, missing_extra, package_folder, require


def test_every_extra_exists() -> None:
    assert set(EXTRAS.values()) <= set(metadata("visualsparta").get_all("Provides-Extra") or [])


@pytest.mark.parametrize("module", EXTRAS)
def test_a_missing_library_names_its_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError) as error:
        require(module)
    advice = f"pip install 'visualsparta[{EXTRAS[module]}]'"
    assert str(error.value) == f"{module} is not installed; run: {advice}"


def test_what_the_slim_installation_lacks_is_named() -> None:
    error = missing_extra(ModuleNotFoundError("", name="torch.nn"))
    assert str(error).startswith("torch is not installed: without it, networks and models run")


def test_any_other_missing_module_is_no_extra() -> None:
    assert missing_extra(ModuleNotFoundError("", name="sparta.nothing")) is None
    assert str(missing_extra(ModuleNotFoundError("", name="matplotlib.figure"))).endswith(
        "[plots]'"
    )


def test_a_package_is_found_without_importing_it() -> None:
    folder = package_folder("tests.sparta.networks")
    assert folder.name == "networks"
    with pytest.raises(ModuleNotFoundError):
        package_folder("no_such_package")
