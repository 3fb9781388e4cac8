"""One command a file: arguments in, exit status out."""
