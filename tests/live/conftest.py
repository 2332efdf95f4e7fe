from tests.cli.conftest import interrupted_cleanup, shell

__all__ = ["interrupted_cleanup", "shell"]
