from sparta.visualsparta.model import count_terms, pad_ids
from training.visualsparta.dataset import SPECIAL, learn_vocabulary

CAPTIONS = ["A brown dog runs.", "Two dogs run on the beach!", "The Beach by the sea"] * 3


def test_every_caption_can_be_written_with_it() -> None:
    tokenizer = learn_vocabulary(iter(CAPTIONS), 60)
    assert len(tokenizer.vocabulary) <= 60
    assert tokenizer.vocabulary[:5] == SPECIAL
    assert tokenizer.indexable.tolist() == [i >= 5 for i in range(len(tokenizer.vocabulary))]
    for caption in CAPTIONS[:3]:
        words = tokenizer.encode_query(caption).words
        spelt = ["".join(piece.removeprefix("##") for piece in word.pieces) for word in words]
        assert spelt == [word.text.lower() for word in words]
        assert all(spelt)


def test_same_captions_give_the_same_vocabulary() -> None:
    assert len({learn_vocabulary(CAPTIONS, 50).vocabulary_hash for _ in range(8)}) == 1


def test_case_does_not_matter() -> None:
    tokenizer = learn_vocabulary(CAPTIONS, 60)
    assert tokenizer.encode_ids("THE BEACH") == tokenizer.encode_ids("the beach")
    ids, mask = pad_ids([tokenizer.encode_ids("the the beach")], "cpu")
    assert sorted(count_terms(ids, mask).counts[0].tolist())[-1] == 2
