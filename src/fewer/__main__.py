"""`python -m fewer` is `fewer`."""

from fewer.cli import start

if __name__ == "__main__":
    start()
