"""`python -m teamwright`: the program, where its command is not on PATH."""

from teamwright.cli import main

if __name__ == "__main__":
    main()
