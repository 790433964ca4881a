"""Common English words that small tokenizers hold as one or two tokens."""

from __future__ import annotations

import random


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WORDS = _split(
    """
    apple arrow autumn badge baker basket beach bell berry bird board boat bone book bottle bowl branch bread
    breeze brick bridge brush bucket butter button cabin cable cake camel camera camp candle canvas card
    carpet castle chain chair cheese cherry circle clock cloud coach coat coffee copper corner cotton cradle
    crown desert desk diamond dinner doctor dragon drawer dream drum eagle engine farmer feather fence field
    finger flag flame flower forest fountain fox garden glass glove gold grape grass guitar hammer harbor hat
    helmet hill honey horse hotel house island jacket jungle kettle kitchen kite ladder lake lamp leaf lemon
    letter lion market meadow melon mirror monkey moon mountain mouse music needle night ocean onion orange
    oven palace paper parrot pencil pepper piano picture pillow pilot planet plate pocket pond potato puzzle
    queen rabbit rain ribbon ring river road robot rocket roof rope rose sailor salt sand school shadow sheep
    ship shoe silver snow spider spoon spring square stable star station stone storm street sugar summer
    table teacher temple ticket tiger tower town train tree truck tunnel turtle valley village violin wagon
    water whale wheel window winter wolf
    """
)

COLOURS = _split("black blue brown green grey orange pink purple red white yellow")
NAMES = _split("Anna Ben Carla David Emma Frank Grace Henry Julia Kevin Laura Mark Nina Oscar Paul Rosa")
CITIES = _split("Athens Berlin Cairo Dublin Lima London Madrid Oslo Paris Prague Rome Tokyo Vienna")


def vocabulary(rng: random.Random, size: int, pool: tuple[str, ...] = WORDS) -> tuple[str, ...]:
    """`size` words of the pool, sorted."""
    return tuple(sorted(rng.sample(pool, size)))


def listed(words: tuple[str, ...]) -> str:
    """Words for a brief."""
    return ", ".join(words)
