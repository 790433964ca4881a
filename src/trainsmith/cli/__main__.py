"""`python -m trainsmith.cli` is the `trainsmith` program."""

from trainsmith.cli.main import main

if __name__ == "__main__":
    main()
