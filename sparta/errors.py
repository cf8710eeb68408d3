"""The one error the command line shows without a traceback."""


class InputError(ValueError):
    """What the user gave cannot be used; the text names the file, line or field and what to do."""
