"""The family `arithmetic`: comparing, digits, sequences, prices and common multiples of whole numbers."""

from trainsmith.families.arithmetic.digit_at import DIGIT_AT
from trainsmith.families.arithmetic.extreme import EXTREME
from trainsmith.families.arithmetic.lcm import LCM
from trainsmith.families.arithmetic.price import PRICE
from trainsmith.families.arithmetic.sequence import SEQUENCE
from trainsmith.families.family import Family

FAMILY = Family(
    name="arithmetic",
    description="Whole numbers: comparing, digits, sequences, look-up, number theory.",
    kinds=(EXTREME, DIGIT_AT, SEQUENCE, PRICE, LCM),
)
