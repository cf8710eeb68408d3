"""Learning a WordPiece vocabulary from captions, for models without a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from sparta.tokenizer import WordPieceTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def learn_vocabulary(captions: Iterable[str], size: int) -> WordPieceTokenizer:
    """Learn at most `size` word pieces, lower-cased as bert-base-uncased does.

    The result is deterministic, which a resumed run depends on.
    """
    texts = list(captions)
    learner = _tokenizer(models.WordPiece(unk_token="[UNK]"))
    # The trainer numbers the letters in a random order and breaks ties by these numbers. Passed
    # as special tokens, they are numbered in this order.
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
    """Letters that start a word, and letters that continue one ("##a")."""
    letters = set()
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text)
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal):
            letters |= {word[0], *(f"##{letter}" for letter in word[1:])}
    return sorted(letters)
