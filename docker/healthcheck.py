"""HEALTHCHECK of the serving image: ends with an error unless the server is ready."""

import os
import ssl
import urllib.request

scheme = "https" if os.environ.get("SPARTA_TLS_CERTIFICATE") else "http"
# The certificate is for the names that others use, and not for this address.
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
url = f"{scheme}://127.0.0.1:{os.environ['SPARTA_PORT']}/readyz"
urllib.request.urlopen(url, timeout=4, context=context)
