"""The family `arithmetic`: comparing, digits, sequences and prices of whole numbers."""

from trainsmith.families.arithmetic.digit_at import DIGIT_AT
from trainsmith.families.arithmetic.extreme import EXTREME
from trainsmith.families.arithmetic.price import PRICE
from trainsmith.families.arithmetic.sequence import SEQUENCE
from trainsmith.families.family import Family

FAMILY = Family(
    name="arithmetic",
    description="Whole numbers: comparing, digits, sequences, look-up.",
    kinds=(EXTREME, DIGIT_AT, SEQUENCE, PRICE),
)
