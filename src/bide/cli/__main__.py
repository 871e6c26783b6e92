"""``python -m bide.cli``, the same as ``bide``."""

from bide.cli.main import main

if __name__ == "__main__":
    main()
