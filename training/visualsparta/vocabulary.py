"""A WordPiece vocabulary learnt from captions, for models that start from nothing."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from sparta.tokenizer import WordPieceTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def learn_vocabulary(captions: Iterable[str], size: int) -> WordPieceTokenizer:
    """Learn at most `size` word pieces, lower-cased as bert-base-uncased does.

    The same captions always give the same vocabulary: a resumed run depends on it.
    """
    texts = list(captions)
    learner = _tokenizer(models.WordPiece(unk_token="[UNK]"))
    # Left to itself the trainer numbers letters in another order each time, and breaks ties by
    # their numbers. So they get theirs beforehand, as if they were special.
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=SPECIAL + _letters(learner, texts), show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    tokenizer = _tokenizer(models.WordPiece(learner.get_vocab(), unk_token="[UNK]"))
    tokenizer.add_special_tokens(SPECIAL)
    return WordPieceTokenizer(tokenizer)


def _tokenizer(model: models.WordPiece) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _letters(tokenizer: Tokenizer, texts: Iterable[str]) -> list[str]:
    """Letters that begin a word, and letters that continue one ("##a")."""
    letters = set()
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text)
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal):
            letters |= {word[0], *(f"##{letter}" for letter in word[1:])}
    return sorted(letters)
