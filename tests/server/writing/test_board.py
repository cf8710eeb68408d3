"""What the processes of a server tell each other."""

from __future__ import annotations

from multiprocessing import get_context

from server.monitoring.metrics import WriterCounts
from server.writing.board import NOT_OPEN, Board


def test_a_commit_is_shown_when_all_open_workers_show_it() -> None:
    board = Board(3)
    assert board.is_shown(7, 0)  # nobody answers anything yet
    board.show(0, 7)
    board.show(1, 6)
    assert not board.is_shown(7, 0)
    board.show(1, 8)
    assert board.is_shown(7, 0)
    board.show(0, NOT_OPEN)
    assert board.is_shown(8, 0)


def test_a_commit_is_not_shown_by_a_worker_that_shows_another_index() -> None:
    board = Board(2)
    board.show(0, 7, 3)
    board.show(1, 6, 4)
    assert not board.is_shown(7, 3) and not board.is_replaced(7, 3)  # it has not looked yet
    board.show(1, 7, 4)
    assert not board.is_shown(7, 3) and board.is_replaced(7, 3)
    board.show(1, 8, 3)
    assert board.is_shown(7, 3) and not board.is_replaced(7, 3)
    board.show(1, NOT_OPEN)
    assert board.is_shown(7, 3) and not board.is_replaced(7, 3)


def _commit(board: Board) -> None:
    board.count(commits=1, commit_seconds=0.5)
    board.count(commits=1, images_deleted=3)
    for number in range(1, 5):
        assert board.committed() == number
    board.show(0, 4)


def test_processes_share_it() -> None:
    board = Board(1)
    assert (board.commit, board.counts) == (0, WriterCounts())
    process = get_context("spawn").Process(target=_commit, args=(board,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert (board.commit, board.counts) == (4, WriterCounts(2, 0.5, images_deleted=3))
    assert board.is_shown(4, 0) and not board.is_shown(5, 0)
