"""The tables of the ledger. Times are seconds since the epoch; documents are JSON of the records named."""

from __future__ import annotations

VERSION = 1
"""Raise it together with a migration."""
APPLICATION = 0x74727331
"""Marks a file as ours ("trs1")."""

JOBS = """
CREATE TABLE jobs (
    identity TEXT PRIMARY KEY,
    recipe TEXT NOT NULL,                 -- the identity without the seed, '' if unknown
    state TEXT NOT NULL CHECK (state IN ('claimed', 'finished', 'void')),
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    owner TEXT NOT NULL,                  -- host:pid of the last claim
    claimed_at REAL NOT NULL,
    finished_at REAL,
    task TEXT,
    status TEXT,
    result TEXT,                          -- JobResult
    CHECK ((state = 'claimed') = (result IS NULL))
) STRICT
"""

EPISODES = """
CREATE TABLE episodes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    task TEXT NOT NULL,
    agent TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'void')),
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    started_at REAL NOT NULL,
    finished_at REAL,
    job TEXT REFERENCES jobs (identity),
    status TEXT,
    reward REAL,
    record TEXT,                          -- EpisodeRecord
    CHECK ((state = 'running') = (record IS NULL))
) STRICT
"""

SCORES = """
CREATE TABLE scores (
    task TEXT NOT NULL,
    model TEXT NOT NULL,
    revision TEXT NOT NULL,
    items TEXT NOT NULL,
    evaluation TEXT NOT NULL,
    score TEXT NOT NULL,                  -- HiddenScore
    PRIMARY KEY (task, model, revision, items, evaluation)
) STRICT
"""

EVENTS = """
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,                -- a job's identity, an episode's id, ...
    detail TEXT NOT NULL
) STRICT
"""

STATEMENTS = (
    JOBS,
    "CREATE INDEX jobs_by_recipe ON jobs (recipe)",
    EPISODES,
    SCORES,
    EVENTS,
    "CREATE INDEX events_by_subject ON events (subject)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
"""All that makes an empty file a ledger, in order."""
