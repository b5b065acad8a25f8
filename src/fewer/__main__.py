"""`python -m fewer` is `fewer`."""

from fewer.cli import main

if __name__ == "__main__":
    main()
