"""The application's page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

PHONE = {"viewport": {"width": 360, "height": 700}, "has_touch": True, "is_mobile": True}

# Dispatches an event of files that are dragged to a place; returns whether the page takes them.
DRAG = """([type, x, y, names]) => {
  const dataTransfer = new DataTransfer();
  for (const name of names) dataTransfer.items.add(new File(["x"], name, { type: "image/jpeg" }));
  const event = new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true });
  document.elementFromPoint(x, y).dispatchEvent(event);
  return event.defaultPrevented;
}"""


@contextmanager
def visited(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """A page in a context of its own.

    An error of a script, what the page's policy forbids, and a request to another host fail the
    test.

    Args:
        browser: to use.
        address: of the server, to which paths are relative.
        options: of the context: `PHONE`, or `bypass_csp` for axe-core, which is put into the page.
    """
    usual = {"viewport": {"width": 1100, "height": 800}, "reduced_motion": "reduce"}
    context = browser.new_context(base_url=address, **usual | options)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda m: problems.append(m.text) if "Content Security" in m.text else None)
    own = (address, "blob:", "data:")
    page.on("request", lambda r: None if r.url.startswith(own) else problems.append(r.url))
    yield page
    context.close()
    assert problems == []


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("Key", exact=True).fill(key)
    page.keyboard.press("Enter")


def violations(page: Page) -> list[str]:
    """What axe-core complains about."""
    answer = cast(dict[str, Any], Axe().run(page).response)
    return [f"{v['id']}: {v['nodes'][0]['target']}" for v in answer["violations"]]


def width(page: Page) -> int:
    """Of the whole page, which may be more than that of the window."""
    return int(page.evaluate("document.documentElement.scrollWidth"))
