"""The family `strings`: places, neighbours, codes and capitals of words."""

from trainsmith.families.family import Family
from trainsmith.families.strings.decode import DECODE
from trainsmith.families.strings.last_word import LAST_WORD
from trainsmith.families.strings.next_word import NEXT_WORD
from trainsmith.families.strings.upper_case import UPPER_CASE
from trainsmith.families.strings.word_at import WORD_AT

FAMILY = Family(
    name="strings",
    description="Letters, words and their order.",
    kinds=(LAST_WORD, WORD_AT, DECODE, NEXT_WORD, UPPER_CASE),
)
