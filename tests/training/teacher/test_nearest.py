import numpy as np

from training.teacher.similarities import (
    BLOCK,
    SentenceDraw,
    Similarities,
    Teacher,
    nearest_sentences,
)

IDS = [[n] for n in range(40)]


def test_the_most_similar_sentences_are_found() -> None:
    rng = np.random.default_rng(0)
    sentences = rng.standard_normal((40, 6)).astype(np.float16)
    photos = rng.standard_normal((BLOCK + 9, 1, 6)).astype(np.float16)
    teacher = Teacher([Similarities("a", sentences, photos)])
    similar = teacher.between(np.arange(40), np.arange(len(photos)))
    found = np.concatenate(list(nearest_sentences(teacher, range(3, len(photos)), 40, 5)))
    for photo, nearest in enumerate(found, 3):
        assert nearest.tolist() == sorted(np.argsort(-similar[:, photo])[:5])
    (everything,) = nearest_sentences(teacher, range(1), 40, 40)
    assert everything.tolist() == [list(range(40))]


def test_near_and_random_sentences_are_drawn() -> None:
    nearest = np.array([[3, 5, 8, 13]], np.int32)
    draw = SentenceDraw(IDS, [[]], nearest, near=2, random=1)
    drawn = [draw(0, 1, np.random.default_rng(seed)) for seed in range(200)]
    assert drawn == [draw(0, 1, np.random.default_rng(seed)) for seed in range(200)]
    for numbers in drawn:
        assert len(set(numbers[:3])) == 3  # two, and one in place of a caption
        assert set(numbers[:3]) <= {3, 5, 8, 13}
    assert {n for numbers in drawn for n in numbers[:3]} == {3, 5, 8, 13}
    assert len({numbers[3] for numbers in drawn}) > 30
    assert len(draw(0, 9, np.random.default_rng(0))) == 12  # more than there are: some twice
