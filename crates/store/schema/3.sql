-- Version 3: what a session was made of, when, and by what else it is found.

-- When the session was made; of one of an earlier version when its first event that is kept happened, where it has one.
ALTER TABLE root ADD COLUMN created_at TEXT;
-- What the application calls it, such as the id of somebody's thread. An owner has each label once.
ALTER TABLE root ADD COLUMN label TEXT;
-- What the application made it of, as JSON: so that it can be made again.
ALTER TABLE root ADD COLUMN origin TEXT;

UPDATE root SET created_at = (
    SELECT at FROM event WHERE event.root = root.number ORDER BY seq LIMIT 1
);

CREATE UNIQUE INDEX labelled ON root (coalesce(owner, ''), label) WHERE label IS NOT NULL;
