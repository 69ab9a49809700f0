"""`python -m contraflow` says what is installed and what it can use.

python -m contraflow                                       versions, devices, settings
python -m contraflow convert model.pt model.safetensors    a PyTorch file as safetensors
python -m contraflow.as_torch PROGRAM --epochs 3           run a PyTorch program
python -m contraflow.as_torch --check PROGRAM              what it needs, and what is missing
"""

import sys

from contraflow.about import show_config
from contraflow.serialize import load, save


def main(arguments: list[str]) -> int:
    """Run a command; without one, describe the installation."""
    if not arguments:
        print(show_config())
        return 0
    if arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"contraflow {sys.modules['contraflow'].__version__}")
        return 0
    if arguments[0] != "convert" or len(arguments) != 3:
        print("usage: contraflow [--help | --version | convert SOURCE TARGET]", file=sys.stderr)
        return 2
    _, source, target = arguments
    if not target.endswith(".safetensors"):
        print(f"convert: {target} must end in .safetensors, which is what it is.", file=sys.stderr)
        return 2
    try:
        found = load(source)
        save(found, target)
    except (OSError, ValueError, TypeError) as error:
        print(f"convert: {error}", file=sys.stderr)
        return 1
    print(f"{source} -> {target}")
    return 0


def run() -> None:
    """The command `contraflow`."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
