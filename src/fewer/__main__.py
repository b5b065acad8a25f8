"""`python -m fewer` is `fewer`."""

from fewer.cli.main import main

if __name__ == "__main__":
    main()
