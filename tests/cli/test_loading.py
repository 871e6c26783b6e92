"""MODULE:ATTR, and every way in which it leads nowhere."""

from pathlib import Path

import pytest

from bide.cli.loading import load_app
from bide.errors import AppNotFound
from tests.cli.conftest import Cli


def refusal(run: Cli, name: str) -> str:
    """Why ``bide worker NAME`` does not start, in one line."""
    message = run.error("worker", name, "--url", "memory:", code=2)
    assert message.count("\n") == 1
    return message.rstrip()


def test_an_app_is_found_in_the_working_directory(shop: Path) -> None:
    assert sorted(load_app("shop:app").tasks) == ["explode", "hold", "remind", "spin"]


def test_an_app_may_be_an_attribute_of_something(here: Path) -> None:
    (here / "nested.py").write_text("import bide\nclass Part:\n    app = bide.App('memory:')\n")
    assert load_app("nested:Part.app").url == "memory:"


def test_an_app_may_be_in_a_package(here: Path) -> None:
    (here / "parts").mkdir()
    (here / "parts" / "jobs.py").write_text("import bide\napp = bide.App('memory:')\n")
    assert load_app("parts.jobs:app").url == "memory:"


def test_no_such_module(run: Cli, here: Path) -> None:
    assert refusal(run, "shpo:app") == f"no module 'shpo' in {here}, or elsewhere on sys.path"
    assert "no module 'shpo' in" in refusal(run, "shpo.jobs:app")


def test_a_module_with_a_missing_import_is_not_taken_for_a_missing_module(
    run: Cli, here: Path
) -> None:
    (here / "broken.py").write_text("import os\nimport stripe_that_is_not\n")
    assert refusal(run, "broken:app") == (
        "module 'broken' does not import: ModuleNotFoundError: No module named "
        f"'stripe_that_is_not' ({here}/broken.py, line 2, in <module>: import stripe_that_is_not)"
    )


def test_the_users_own_line_is_named_also_when_a_library_raised(run: Cli, here: Path) -> None:
    (here / "wrong.py").write_text(
        "import bide, json\n"
        "app = bide.App()\n"
        "def read():\n"
        "    return json.loads('{')\n"
        "settings = read()\n"
    )
    message = refusal(run, "wrong:app")
    assert "JSONDecodeError" in message
    assert f"({here}/wrong.py, line 4, in read: return json.loads('{{'))" in message


def test_an_error_of_bides_own_while_importing_names_the_users_line(run: Cli, here: Path) -> None:
    (here / "double.py").write_text(
        "import bide\n"
        "app = bide.App()\n"
        "@app.task(name='one')\n"
        "def first() -> None: ...\n"
        "@app.task(name='one')\n"
        "def second() -> None: ...\n"
    )
    message = refusal(run, "double:app")
    assert "DuplicateTask: task 'one' is defined at" in message
    assert f"({here}/double.py, line " in message


def test_a_syntax_error_names_its_line(run: Cli, here: Path) -> None:
    (here / "typo.py").write_text("import bide\napp = = bide.App()\n")
    assert "SyntaxError: invalid syntax (typo.py, line 2)" in refusal(run, "typo:app")


def test_a_script_that_ends_while_it_is_imported(run: Cli, here: Path) -> None:
    (here / "script.py").write_text("import sys\nsys.exit(0)\n")
    assert "module 'script' does not import: SystemExit: 0" in refusal(run, "script:app")


def test_another_attribute_is_suggested(run: Cli, shop: Path) -> None:
    message = refusal(run, "shop:ap")
    assert message == "shop:ap: module 'shop' has no 'ap'; there is shop:app"


def test_something_else_than_an_app(run: Cli, shop: Path) -> None:
    assert refusal(run, "shop:os") == "shop:os is of type module, not an App; there is shop:app"


def test_a_module_without_an_app(run: Cli, here: Path) -> None:
    (here / "empty.py").write_text("")
    assert refusal(run, "empty:app").endswith("has no 'app'; there is no App in that module at all")


@pytest.mark.parametrize(
    "name,hint",
    [
        ("shop", "such as shop:app"),
        ("shop:", "such as shop:app"),
        ("shop.py:app", "did you mean shop:app?"),
        ("./src/shop.py", "did you mean src.shop:app?"),
        ("src/shop:jobs", "did you mean src.shop:jobs?"),
        (":app", "such as shop:app"),
        ("", "such as shop:app"),
        ("sh op:app", "such as shop:app"),
    ],
)
def test_a_name_of_another_form(run: Cli, name: str, hint: str) -> None:
    assert hint in refusal(run, name)


def test_an_interrupt_while_importing_is_not_an_error_of_the_module(run: Cli, here: Path) -> None:
    (here / "slow.py").write_text("raise KeyboardInterrupt\n")
    result = run("stats", "--app", "slow:app", code=130)
    assert "error" not in result.output


def test_load_app_raises_app_not_found(here: Path) -> None:
    with pytest.raises(AppNotFound):
        load_app("nowhere:app")
