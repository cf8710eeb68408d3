"""Whether a request comes from the page of this very server.

A browser sends the cookie unasked, so the cookie alone shows only which browser sent a request.
What the page adds shows that its script did: scripts of other origins cannot add a header that is
not among the few safe ones without asking the server first, which permits none but those of keys,
and none can set `Origin` and `Sec-Fetch-Site`, with which browsers name the origin of a request.
"""

from __future__ import annotations

from collections.abc import Mapping

PAGE = b"x-sparta-page"  # a header that the page's script adds
SAFE = frozenset({"GET", "HEAD"})  # sent without Origin by a page to its own server


def is_of_another_origin(headers: Mapping[bytes, bytes], scheme: str) -> bool:
    """Whether a browser says that another origin's page sent a request.

    Args:
        headers: of the request.
        scheme: "https" or "http"; the latter also where a proxy that ends TLS is not named.
    """
    origin = headers.get(b"origin")
    if origin is None:
        return False
    host = headers.get(b"host", b"")
    # A page that came without TLS may be anybody's.
    return origin != b"https://" + host and (scheme == "https" or origin != b"http://" + host)


def is_from_page(method: str, headers: Mapping[bytes, bytes], scheme: str) -> bool:
    """Whether the script of this server's page sent a request, if a browser did."""
    return (
        PAGE in headers
        # Browsers send it over TLS, and to the machine itself.
        and headers.get(b"sec-fetch-site", b"same-origin") == b"same-origin"
        and (b"origin" in headers or method in SAFE)
        and not is_of_another_origin(headers, scheme)
    )
