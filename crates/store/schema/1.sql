-- Version 1.

-- A root session: the events of its whole tree have one numbering.
CREATE TABLE root (
    number INTEGER PRIMARY KEY,
    id     TEXT NOT NULL UNIQUE,
    -- Made with the session: cursors are `<epoch>-<seq>`, so that one of another session of that name is told apart.
    epoch  TEXT NOT NULL
) STRICT;

-- A session of a tree, the root included: what its spawn, its prompts and its terminals said.
CREATE TABLE session (
    number     INTEGER PRIMARY KEY,
    root       INTEGER NOT NULL REFERENCES root (number),
    id         TEXT NOT NULL,
    parent     TEXT,
    depth      INTEGER NOT NULL,
    name       TEXT NOT NULL,
    mechanism  TEXT,
    task       TEXT NOT NULL,
    status     TEXT NOT NULL,
    runs       INTEGER NOT NULL,
    started_at TEXT,
    ended_at   TEXT,
    UNIQUE (root, id)
) STRICT;

-- An event, under the session whose it is: a spawn is under the parent (RFC-0014's `spawn_start`).
CREATE TABLE event (
    root    INTEGER NOT NULL REFERENCES root (number),
    seq     INTEGER NOT NULL,
    session INTEGER NOT NULL REFERENCES session (number),
    kind    TEXT NOT NULL,
    at      TEXT NOT NULL,
    json    TEXT NOT NULL,
    PRIMARY KEY (root, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX spawn ON event (root, session) WHERE kind = 'SPAWN_SESSION_START';
