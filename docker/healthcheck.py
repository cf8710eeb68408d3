"""HEALTHCHECK of the serving image: ends with an error unless the server is ready.

The settings are those of the server: the options of `sparta serve` where that is the first process,
as in a container, the variables, and the file of either.
"""

import ssl
import sys
import urllib.request
from pathlib import Path

from server.settings import load_settings, url
from sparta.errors import InputError


def options() -> list[str]:
    """What follows `sparta serve` in the command line of the first process."""
    try:
        words = Path("/proc/1/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []
    places = [
        n for n, one in enumerate(words) if one == "serve" and words[n - 1].endswith("sparta")
    ]
    return words[places[0] + 1 :] if places else []


try:
    if words := options():
        from server.commands.serve import read_words  # which takes a second to load

        settings = read_words(words).settings
    else:
        settings = load_settings({"index": "."}, {}).settings  # of which no more is read
    address = f"{url(settings.host, settings.port, settings.scheme)}/readyz"
    # The certificate is for the names that others use, and not for this address.
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    urllib.request.urlopen(address, timeout=4, context=unchecked)
except (InputError, OSError) as error:
    sys.exit(f"not ready: {error}")
