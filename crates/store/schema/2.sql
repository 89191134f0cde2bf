-- Version 2: what is forgotten, and for whom a session is.

-- For whom the session is kept, such as a tenant.
ALTER TABLE root ADD COLUMN owner TEXT;
-- The bytes of the JSON of all its events, forgotten ones included.
ALTER TABLE root ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
-- The number of the last event that was forgotten, and the root's conversation up to there, as JSON.
ALTER TABLE root ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;
ALTER TABLE root ADD COLUMN conversation TEXT NOT NULL DEFAULT '[]';

UPDATE root SET bytes = (
    SELECT coalesce(sum(length(CAST(json AS BLOB))), 0) FROM event WHERE event.root = root.number
);

-- The events behind which nothing was running: what lies up to one can be forgotten as a whole.
CREATE TABLE pause (
    root  INTEGER NOT NULL REFERENCES root (number),
    seq   INTEGER NOT NULL,
    -- The bytes of the JSON of all events up to here.
    bytes INTEGER NOT NULL,
    -- When it was written, in seconds since 1970.
    at    INTEGER NOT NULL,
    PRIMARY KEY (root, seq)
) STRICT, WITHOUT ROWID;

-- A run of a child begins with its spawn and one of the root with a prompt; each has one terminal.
INSERT INTO pause (root, seq, bytes, at)
SELECT root, seq, bytes, coalesce(CAST(strftime('%s', at) AS INTEGER), CAST(strftime('%s', 'now') AS INTEGER))
FROM (
    SELECT
        root,
        seq,
        kind,
        at,
        sum(length(CAST(json AS BLOB))) OVER upto AS bytes,
        sum(
            CASE
                WHEN kind = 'SPAWN_SESSION_START' THEN 1
                WHEN kind = 'STREAM_COMPLETE' THEN -1
                WHEN kind = 'USER_MESSAGE' AND json ->> '$.type' = 'USER_MESSAGE'
                    AND json ->> '$.origin' IS NOT 'steering' THEN 1
                ELSE 0
            END
        ) OVER upto AS running
    FROM event
    WINDOW upto AS (PARTITION BY root ORDER BY seq)
)
WHERE kind = 'STREAM_COMPLETE' AND running = 0;

CREATE INDEX running ON session (root) WHERE status = 'running';
