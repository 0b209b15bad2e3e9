"""`python -m uqled`: the command line where its script is not on the path."""

from uqled.cli import app

if __name__ == "__main__":
    app()
