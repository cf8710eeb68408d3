"""The page in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from indexer.answer import Box
from server.backends import Backend
from tests.server.apps import serving
from tests.server.fake import DRAWINGS, LEFT, RIGHT, WHOLE, FakeDense, FakeSearcher
from tests.server.pages import DRAG, PHONE, violations, visited, width

WORDS = ".words .chip"
PHOTOS = re.compile("/(file|thumbnail)([?].*)?$")


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The start page."""
    with visited(browser, address) as page:
        page.goto("/")
        yield page


def search(page: Page, query: str) -> None:
    page.locator("#q").fill(query)
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_have_class("")
    expect(page.locator("[aria-busy]")).to_have_count(0)


def expect_box(photo: Locator, box: Box, word: str) -> None:
    """The drawn box lies where the region does in the photo as displayed, within a pixel."""
    overlay = photo.locator(".box")
    expect(overlay).to_be_visible()
    expect(overlay).to_have_text(word)
    image, drawn = photo.locator("img").bounding_box(), overlay.bounding_box()
    assert image and drawn
    x1, y1, x2, y2 = box
    assert drawn["x"] == pytest.approx(image["x"] + x1 * image["width"], abs=1)
    assert drawn["y"] == pytest.approx(image["y"] + y1 * image["height"], abs=1)
    assert drawn["width"] == pytest.approx((x2 - x1) * image["width"], abs=1)
    assert drawn["height"] == pytest.approx((y2 - y1) * image["height"], abs=1)


def test_the_start_page_has_the_focus_and_examples(page: Page) -> None:
    expect(page.locator("#q")).to_be_focused()
    expect(page.locator("#corpus")).to_have_text("5 photos")
    expect(page.locator("#examples a")).to_have_text(["red", "blue green"])
    page.locator("#examples a").last.click()
    expect(page.locator(WORDS)).to_have_text(["blue", "green"])
    expect(page.locator("#q")).to_have_value("blue green")


def test_hits_with_rank_score_and_words(page: Page) -> None:
    search(page, "red blue")
    expect(page.locator(".card .rank")).to_have_text(["1", "2", "3", "4", "5"])
    expect(page.locator(".card .name").nth(0)).to_have_text("garden/two.jpg")
    expect(page.locator(".card .score").nth(0)).to_have_text("330")
    expect(page.locator(".card").nth(0).locator(".chip")).to_have_text(["blue", "red"])
    expect(page.locator(".status")).to_have_text("5 photos · text 0.3 ms · search 1.0 ms")
    strength = "e => +e.style.getPropertyValue('--strength')"
    chips = page.locator(".card").nth(0).locator(".chip")
    assert chips.nth(0).evaluate(strength) == 1
    assert chips.nth(1).evaluate(strength) == pytest.approx(120 / 210)
    for image in page.locator(".card img").all():
        expect(image).to_have_js_property("complete", True)
        assert image.evaluate("e => e.naturalWidth") > 0
        width, height = image.evaluate("e => [e.naturalWidth, e.naturalHeight]")
        shown = image.bounding_box()
        assert shown and shown["width"] / shown["height"] == pytest.approx(width / height, rel=0.02)


def test_pointing_at_a_chip_draws_its_region(page: Page) -> None:
    search(page, "red blue")
    card = page.locator(".card").nth(0)
    card.locator(".chip", has_text="red").hover()
    expect_box(card.locator(".photo"), RIGHT, "red")
    card.locator(".chip", has_text="blue").hover()
    expect_box(card.locator(".photo"), LEFT, "blue")
    expect(page.locator(".card").nth(1).locator(".box")).to_be_hidden()
    page.mouse.move(0, 0)
    expect(card.locator(".box")).to_be_hidden()
    card.locator(".chip", has_text="red").focus()
    expect_box(card.locator(".photo"), RIGHT, "red")


def test_a_word_of_the_query_is_shown_on_all_photos(page: Page) -> None:
    search(page, "green blue")
    page.locator(WORDS, has_text="green").hover()
    boxes = {"sea/a b.webp": RIGHT, "garden/one.png": WHOLE}
    for card in page.locator(".card").all():
        name = card.locator(".name").inner_text()
        if name in boxes:
            expect_box(card.locator(".photo"), boxes[name], "green")
        else:
            expect(card.locator(".box")).to_be_hidden()
    page.locator(WORDS, has_text="blue").click()
    page.mouse.move(0, 0)
    page.locator("#q").focus()
    expect(page.locator(WORDS, has_text="blue")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".card .box:visible")).to_have_text(["blue"] * 3)


def test_unknown_words_are_listed(page: Page) -> None:
    search(page, "red zyzzyva")
    expect(page.locator(".status")).to_contain_text("not in the index: “zyzzyva”")
    expect(page.locator(".words s")).to_have_text("zyzzyva")
    expect(page.locator(".card")).to_have_count(3)
    search(page, "<i>qwx</i>")
    expect(page.locator(".status")).to_have_text("No photo matches · not in the index: “qwx”")
    expect(page.locator(".card")).to_have_count(0)


def test_substitutes_have_an_arrow(page: Page) -> None:
    search(page, "red azure")
    expect(page.locator(WORDS)).to_have_text(["red", "azure → blue"])
    expect(page.locator(".status")).to_contain_text("nearest words: “azure” → “blue”")
    card = page.locator(".card").nth(0)
    card.locator(".chip", has_text="azure").hover()
    expect_box(card.locator(".photo"), LEFT, "azure → blue")
    page.locator(WORDS, has_text="azure").hover()
    title = "Not in the index; the nearest word is searched, similarity 0.75"
    expect(page.locator(WORDS, has_text="azure")).to_have_attribute("title", title)
    card.locator(".opener").click()
    expect(page.locator("#details tbody th")).to_have_text(["red", "azure → blue"])


def test_the_address_contains_the_query(page: Page) -> None:
    search(page, "red & blue?")
    page.locator("#k").select_option("10")
    expect(page).to_have_url("/?q=red+%26+blue%3F&k=10")
    search(page, "green")
    page.go_back()
    expect(page.locator("#q")).to_have_value("red & blue?")
    expect(page.locator(".card")).to_have_count(5)
    page.reload()
    expect(page.locator(".card")).to_have_count(5)
    page.go_back()
    page.go_back()
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator(".card")).to_have_count(0)


def test_a_misspelt_word_is_corrected_and_offered(page: Page) -> None:
    search(page, "red grene")
    line = page.locator(".spelling")
    expect(line).to_have_text("Showing photos for “green”. Search for “grene” instead")
    found = page.locator(".card .name").all_text_contents()
    line.get_by_role("link").click()
    expect(page).to_have_url("/?q=red+grene&k=20&exact=1")
    expect(line).to_be_hidden()
    expect(page.locator(".status")).to_contain_text("not in the index: “grene”")
    search(page, "red green")
    expect(page).to_have_url("/?q=red+green&k=20")
    expect(line).to_be_hidden()
    assert page.locator(".card .name").all_text_contents() == found


@pytest.mark.parametrize(
    ("filters", "place"),
    [
        (["iso:"], "filter, column 5: a value is missing"),
        (["taken:2024", "iso:"], "filter iso:, column 5: a value is missing"),
        (["(a:1", "iso:4"], "filter (a:1, column 1: there is no ) that closes this ("),
    ],
)
def test_a_wrong_filter_is_shown_with_its_column(
    page: Page, filters: list[str], place: str
) -> None:
    page.goto(f"/?q=red&{'&'.join(f'filter={quote(one)}' for one in filters)}")
    expect(page.get_by_role("alert").first).to_contain_text(place)


def test_back_closes_the_photo_that_is_open(page: Page) -> None:
    search(page, "red blue")
    search(page, "green")
    page.locator(".opener").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.go_back()
    expect(dialog).to_be_hidden()
    expect(page).to_have_url("/?q=green&k=20")
    page.locator(".opener").first.click()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.go_back()
    expect(page).to_have_url("/?q=red+blue&k=20")
    page.locator(".opener").first.click()
    dialog.get_by_role("link", name="More like this").click()
    expect(page.locator(".query-image")).to_be_visible()
    page.go_back()
    expect(page).to_have_url("/?q=red+blue&k=20")
    expect(dialog).to_be_hidden()


def test_errors_are_shown_and_can_be_tried_again(page: Page) -> None:
    page.goto("/?q=red&k=5000")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Invalid parameter")
    expect(alert).to_contain_text("less than or equal to 1000")
    page.goto("/?like=none.jpg")
    expect(alert).to_contain_text("'none.jpg' is not in the index")
    expect(page.locator(".query-image img")).to_have_count(0)
    page.goto("/?q=explode")
    expect(alert).to_contain_text("Internal Server Error")
    page.route("**/v1/search*", lambda route: route.abort())
    search(page, "red")
    expect(alert).to_contain_text("Is “sparta serve” still running?")
    page.unroute("**/v1/search*")
    page.get_by_role("button", name="Try again").click()
    expect(alert).to_be_hidden()
    expect(page.locator(".card")).to_have_count(3)


@pytest.mark.parametrize(
    ("status", "title", "advice"),
    [
        (413, "Too large", "Choose a smaller one"),
        (429, "Too many requests", "Wait a moment"),
        (502, "The server cannot be reached", "Try again in a minute"),
        (503, "The server is busy", "Try again in a minute"),
        (504, "The server took too long", "tell who runs the server"),
        (418, "The server failed", "Status 418"),
    ],
)
def test_what_a_proxy_answers_is_said_in_words(
    page: Page, status: int, title: str, advice: str
) -> None:
    page.route("**/v1/search*", lambda route: route.fulfill(status=status, body="<html>"))
    search(page, "red")
    alert = page.get_by_role("alert")
    expect(alert.get_by_role("heading")).to_have_text(title)
    expect(alert).to_contain_text(advice)


def test_a_photo_opens_with_its_explanation(page: Page) -> None:
    search(page, "red Red blue green")
    page.locator(".opener").nth(0).focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("h2")).to_have_text("1 garden/one.png")
    lines = dialog.locator("tbody tr")
    expect(lines.nth(0).locator("th, td")).to_have_text(["red", "2", "200", "400", "region 0"])
    expect(lines.nth(1)).to_have_class("nothing")
    expect(lines.nth(1).locator("td").last).to_have_text("\u2013")
    expect(lines.nth(2).locator("td").last).to_have_text("label “green” in “dark green”")
    expect(dialog.locator("tfoot td").first).to_have_text("490")
    lines.nth(2).hover()
    expect_box(dialog.locator(".photo"), WHOLE, "green: label “green” in “dark green”")
    page.keyboard.press("ArrowRight")
    expect(dialog.locator("h2")).to_have_text("2 garden/two.jpg")
    lines.nth(1).hover()
    expect_box(dialog.locator(".photo"), LEFT, "blue")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator(".opener").nth(0)).to_be_focused()


def test_query_by_image_by_keyboard(page: Page) -> None:
    search(page, "red blue")
    page.locator(".opener").nth(1).focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("h2")).to_have_text("2 garden/one.png")
    dialog.get_by_role("link", name="More like this").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url("/?like=garden%2Fone.png&k=20")
    expect(dialog).to_be_hidden()
    example = page.get_by_role("heading", name="Photos similar to garden/one.png")
    expect(example).to_be_focused()
    expect(page).to_have_title(re.compile("^Similar to garden/one.png "))
    names = ["garden/two.jpg", "Straße/海 é.jpg", "sea/a b.webp"]
    expect(page.locator(".card .name")).to_have_text(names)
    expect(page.locator(".status")).to_have_text("3 photos · terms 0.5 ms · search 1.5 ms")
    expect(page.locator(WORDS)).to_have_text(["red", "green"])
    expect(page.locator("#q")).to_have_value("")
    shown = page.locator(".query-image img")
    expect(shown).to_have_attribute("src", "/v1/images/garden/one.png/thumbnail?size=256")
    page.locator(WORDS, has_text="red").hover()
    expect_box(page.locator(".card").nth(0).locator(".photo"), RIGHT, "red")
    page.locator("#k").select_option("10")
    expect(page).to_have_url("/?like=garden%2Fone.png&k=10")
    page.reload()
    expect(page.locator(".card .name")).to_have_text(names)
    page.go_back()
    page.go_back()
    expect(page.locator("#q")).to_have_value("red blue")
    expect(page.locator(".query-image")).to_be_hidden()
    page.goto("/?like=garden%2Fone.png&compare=vse%2B%2B")
    for backend, photos in (("sparta", 3), ("vse++", 4)):
        expect(column(page, backend).locator(".card")).to_have_count(photos)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"status": 404}, "file is missing"),
        ({"status": 403, "json": {"title": "The file is elsewhere"}}, "The file is elsewhere"),
        ({"body": "no picture"}, "This browser cannot show the photo"),
    ],
)
def test_a_photo_that_is_not_shown_says_why(
    page: Page, answer: dict[str, Any], reason: str
) -> None:
    page.route(PHOTOS, lambda route: route.fulfill(**answer))
    search(page, "green")
    expect(page.locator(".card").nth(0)).to_contain_text(reason)


def test_a_format_that_the_server_does_not_know_is_sent_as_it_is(page: Page) -> None:
    page.route("**/thumbnail*", lambda route: route.fulfill(status=404))
    search(page, "green")
    image = page.locator(".card img").first
    expect(image).to_have_attribute("src", re.compile("/file$"))
    expect(image).to_have_js_property("naturalWidth", 320)


def test_dense_models_can_be_asked_together(browser: Browser) -> None:
    dense = [Backend(name, FakeDense()) for name in ("vse++", "mv-vse")]
    with serving(Backend("sparta", FakeSearcher()), *dense) as address:
        page = browser.new_page(base_url=address)
        page.goto("/")
        options = page.locator("select[name=backend] option")
        expect(options).to_have_text(["sparta", "vse++", "mv-vse", "vse+++mv-vse"])
        page.close()


def test_more_photos_come_when_the_end_is_near(browser: Browser, photos: Path) -> None:
    drawings = {f"garden/{n:03d}.png": DRAWINGS["garden/one.png"] for n in range(60)}
    with serving(Backend("sparta", FakeSearcher(drawings), photos)) as address:
        page = browser.new_page(viewport={"width": 1100, "height": 400}, base_url=address)
        page.goto("/?q=red&k=10")
        cards = page.locator(".card")
        expect(page.locator(".card .rank").nth(9)).to_have_text("10")
        page.wait_for_timeout(300)
        shown = cards.count()
        assert 10 <= shown < 60
        page.mouse.wheel(0, 100_000)
        expect(cards).not_to_have_count(shown)
        for _ in range(10):
            page.mouse.wheel(0, 100_000)
            page.wait_for_timeout(100)
        expect(cards).to_have_count(60)
        expect(page.locator(".card .rank").last).to_have_text("60")
        expect(page.locator(".card .name").last).to_have_text("garden/059.png")
        page.mouse.wheel(0, 100_000)  # the last ones may have come after all of these
        expect(page.get_by_role("button", name="Show more photos")).to_be_hidden()
        expect(page.locator(".status")).to_contain_text("60 photos")
        page.locator(".opener").last.click()
        expect(page.get_by_role("dialog").locator("h2")).to_have_text("60 garden/059.png")
        page.keyboard.press("Escape")
        page.wait_for_timeout(300)
        place = page.evaluate("scrollY")
        assert place > 1000
        page.locator("#q").fill("red red")
        page.keyboard.press("Enter")
        expect(page).to_have_url("/?q=red+red&k=10")
        expect(cards).not_to_have_count(60)
        page.wait_for_function("scrollY < 100")
        page.go_back()
        expect(cards).to_have_count(60)
        page.wait_for_function(f"Math.abs(scrollY - {place}) < 100")
        page.go_forward()
        page.wait_for_function("scrollY < 100")
        page.close()


def test_words_are_completed_while_they_are_typed(page: Page) -> None:
    query = page.locator("#q")
    query.press_sequentially("red gr")
    options = page.get_by_role("listbox").get_by_role("option")
    expect(options).to_have_count(1)
    expect(options.first).to_contain_text("green")
    expect(query).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    active = options.first.get_attribute("id") or ""
    expect(query).to_have_attribute("aria-activedescendant", active)
    page.keyboard.press("Enter")
    expect(query).to_have_value("red green ")
    expect(page.get_by_role("listbox")).to_be_hidden()
    query.press_sequentially("bl")
    expect(options).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_be_hidden()
    query.press_sequentially("u")
    options.first.click()
    expect(query).to_have_value("red green blue ")
    page.keyboard.press("Enter")
    expect(page.locator(WORDS)).to_have_text(["red", "green", "blue"])


def test_the_page_fits_a_phone(browser: Browser, address: str) -> None:
    with visited(browser, address, **PHONE) as page:
        page.goto("/?q=red+blue+green")
        expect(page.locator(".card")).to_have_count(5)
        assert width(page) <= 360
        page.goto(f"/?q=red+blue+green+{'x' * 400}")
        expect(page.locator(".words s")).to_be_visible()
        assert width(page) <= 360
        card = page.locator(".card").nth(0)
        card.locator(".chip", has_text="red").tap()
        expect_box(card.locator(".photo"), RIGHT, "red")
        page.goto(f"/?like={quote('garden/one.png')}")
        page.locator(".opener").nth(0).tap()
        assert page.locator(".why").evaluate("e => e.scrollWidth <= e.clientWidth")
        page.get_by_role("link", name="More like this").tap()
        expect(page.locator(".query-image h2")).to_have_text("Photos similar to garden/two.jpg")
        assert width(page) <= 360
        page.goto(f"/?q=red+blue+green+{'x' * 400}&compare=vse%2B%2B")
        expect(page.locator(".card")).to_have_count(10)
        assert width(page) <= 360
        check_side_by_side(page)
        assert page.locator(".backends select").first.is_visible()


def column(page: Page, backend: str) -> Locator:
    return page.get_by_role("region", name=f"Results of {backend}")


def check_side_by_side(page: Page) -> None:
    left, right = (column(page, name).bounding_box() for name in ("sparta", "vse++"))
    assert left and right and left["y"] == right["y"] and right["x"] >= left["x"] + left["width"]


def test_a_dense_backend_is_chosen_and_explains_nothing(page: Page) -> None:
    search(page, "red zyzzyva")
    page.get_by_label("Backend").select_option("vse++")
    expect(page).to_have_url("/?q=red+zyzzyva&k=20&backend=vse%2B%2B")
    expect(page.locator(".card .score").first).to_have_text("0.200")
    expect(page.locator(".card")).to_have_count(5)
    expect(page.locator(".card .chip")).to_have_count(0)
    expect(page.locator(".status")).to_have_text(
        "5 photos · text 13 ms · search 1.0 ms · unknown to vse++: “zyzzyva”"
    )
    expect(page.locator(".card img").first).to_have_attribute("alt", "Photo garden/one.png")
    page.locator(".opener").nth(1).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Similarity 0.120. vse++ compares the text with the photo as a")
    expect(dialog).to_contain_text("View 2 of the photo was the nearest.")
    expect(dialog.locator("table")).to_be_hidden()
    page.keyboard.press("Escape")
    page.get_by_label("Backend").select_option("sparta")
    expect(page).to_have_url("/?q=red+zyzzyva&k=20")
    expect(page.locator(".card .chip").first).to_be_visible()  # the hits are the new ones
    page.locator(".opener").first.click()
    expect(dialog.locator("table")).to_be_visible()
    expect(dialog).not_to_contain_text("Similarity")


def test_words_rarely_seen_in_training_are_marked(page: Page) -> None:
    def rarely(route: Route) -> None:
        answer = route.fetch()
        added = {"rare": ["azure", "red"], "missing_images": 2}
        route.fulfill(response=answer, json={**answer.json(), **added})

    page.route("**/v1/search*", rarely)
    page.goto("/?q=red+azure+green")
    expect(page.locator(".status")).to_contain_text(
        "rarely seen in training, results may be wrong: “azure”, “red”"
    )
    marked = page.locator(".words .chip.rare")
    expect(marked).to_have_text(["red", "azure → blue"])
    for number in range(2):
        expect(marked.nth(number)).to_have_accessible_description(
            re.compile("Rarely seen in training: results may be wrong$")
        )
    assert "dotted" in marked.first.evaluate("e => getComputedStyle(e).textDecoration")
    assert not violations(page)
    page.goto("/?q=red&backend=vse%2B%2B")
    expect(page.locator(".status")).to_contain_text("search 1.0 ms · 2 photos unknown to vse++")
    page.unroute("**/v1/search*")


def test_two_backends_beside_each_other_by_keyboard(page: Page) -> None:
    search(page, "red blue")
    expect(page.locator(".backend-name")).to_be_hidden()
    page.get_by_label("Compare with").focus()
    page.keyboard.type("vse")
    sparta, dense = column(page, "sparta"), column(page, "vse++")
    expect(page).to_have_url("/?q=red+blue&k=20&compare=vse%2B%2B")
    expect(page.get_by_role("heading", level=2)).to_have_text(["sparta", "vse++"])
    expect(sparta.locator(".status")).to_have_text("5 photos · text 0.3 ms · search 1.0 ms")
    expect(dense.locator(".status")).to_have_text("5 photos · text 13 ms · search 1.0 ms")
    expect(sparta.locator(".card .score").first).to_have_text("330")
    expect(dense.locator(".card .score").first).to_have_text("0.330")
    check_side_by_side(page)
    dense.locator(".opener").nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").locator("h2")).to_contain_text("2 garden/one.png")
    page.keyboard.press("Escape")
    page.reload()
    expect(page.get_by_label("Compare with")).to_have_value("vse++")
    expect(dense.locator(".card")).to_have_count(5)
    page.go_back()
    expect(dense).to_be_hidden()
    expect(page.get_by_label("Compare with")).to_have_value("")
    expect(page.locator(".card")).to_have_count(5)


def test_one_backends_error_leaves_the_others_answer(page: Page) -> None:
    page.route("**/v1/search*backend=*", lambda route: route.abort())
    page.goto("/?q=red&compare=vse%2B%2B")
    expect(page.get_by_role("alert")).to_contain_text("Is “sparta serve” still running?")
    expect(column(page, "sparta").locator(".card")).to_have_count(3)
    page.unroute("**/v1/search*backend=*")
    page.get_by_role("button", name="Try again").click()
    expect(column(page, "vse++").locator(".card")).to_have_count(5)
    expect(page.get_by_role("alert")).to_be_hidden()


def test_what_a_server_cannot_do_is_not_offered(
    browser: Browser, photos: Path, tmp_path: Path
) -> None:
    """One that has a single backend, images without fields, and no keys."""
    backend = Backend("sparta", FakeSearcher(), photos)
    with (
        serving(backend, keys=tmp_path / "none.json") as address,
        visited(browser, address) as page,
    ):
        page.goto("/?q=red")
        expect(page.locator(".card")).to_have_count(3)
        expect(page.locator("#corpus")).to_have_text("5 photos")
        for name in (".backends", "#narrow"):
            expect(page.locator(name)).to_be_hidden()
        expect(page.get_by_role("button", name="Add photos")).to_be_hidden()
        page.locator(".card").first.hover()
        expect(page.locator(".select").first).to_be_hidden()
        page.locator(".opener").first.press("x")
        expect(page.locator(".select:checked")).to_have_count(0)
        page.evaluate(DRAG, ["dragover", 800, 400, ["a.jpg"]])
        expect(page.get_by_text("find similar ones")).to_be_visible()
        expect(page.get_by_text("add them to the index")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_complain_about(browser: Browser, address: str, scheme: str) -> None:
    with visited(browser, address, bypass_csp=True, color_scheme=scheme) as page:
        page.goto("/")
        expect(page.locator("#examples a").first).to_be_visible()
        assert violations(page) == []
        page.locator("#q").press_sequentially("red gr")
        expect(page.locator("#suggestions li").first).to_be_visible()
        assert violations(page) == []
        for path, shown in (
            ("/?q=red&k=5000", page.get_by_role("alert")),
            ("/?q=red+blue&compare=vse%2B%2B", page.locator(".card").nth(9)),
            ("/?q=red+-green+zyzzyva", page.locator(".card").first),
        ):
            page.goto(path)
            expect(shown).to_be_visible()
            assert violations(page) == []
        page.locator(".opener").first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert violations(page) == []
