-- What others may rely on: made anew whenever the store is opened by a version of its own. A later one may add columns
-- and views, and takes none away.

DROP VIEW IF EXISTS roots;
DROP VIEW IF EXISTS sessions;
DROP VIEW IF EXISTS events;
DROP VIEW IF EXISTS spawns;

-- The root sessions, with the numbers of the first and the last event that are kept and their bytes as JSON.
CREATE VIEW roots AS
SELECT
    root.id AS root,
    root.epoch,
    root.owner,
    root.label,
    root.created_at,
    session.name,
    session.status,
    root.forgotten + 1 AS first,
    max(root.forgotten, coalesce((SELECT max(seq) FROM event WHERE event.root = root.number), 0)) AS last,
    root.bytes - coalesce(
        (SELECT bytes FROM pause WHERE pause.root = root.number AND pause.seq = root.forgotten), 0
    ) AS bytes
FROM root
JOIN session ON session.root = root.number AND session.id = root.id
ORDER BY root.number;

-- The sessions of each tree, parents before their children. `tree` is the name, set in by depth.
CREATE VIEW sessions AS
WITH RECURSIVE below (number, root, path) AS (
    SELECT number, root, printf('%012d', number) FROM session WHERE parent IS NULL
    UNION ALL
    SELECT child.number, child.root, below.path || printf('%012d', child.number)
    FROM below
    JOIN session AS parent ON parent.number = below.number
    JOIN session AS child ON child.root = below.root AND child.parent = parent.id
)
SELECT
    root.id AS root,
    printf('%*s%s', 2 * session.depth, '', session.name) AS tree,
    session.id AS session,
    session.parent,
    session.depth,
    session.name,
    session.mechanism,
    session.task,
    session.status,
    session.runs,
    session.started_at,
    session.ended_at
FROM below
JOIN session ON session.number = below.number
JOIN root ON root.number = below.root
ORDER BY below.root, below.path;

-- Every event, in order. `json` is a line of the native spelling.
CREATE VIEW events AS
SELECT root.id AS root, event.seq, session.id AS session, event.kind, event.at AS time, event.json
FROM event
JOIN root ON root.number = event.root
JOIN session ON session.number = event.session
WHERE event.seq > root.forgotten
ORDER BY event.root, event.seq;

-- The spawns, under their parents (RFC-0014's `spawn_start`), each with its number among the events.
CREATE VIEW spawns AS
SELECT
    root.id AS root,
    event.seq,
    session.id AS session,
    'spawn_start' AS event_type,
    coalesce(json ->> '$.event.child_session_id', json ->> '$.child_session_id') AS child,
    coalesce(json ->> '$.event.run', json ->> '$.run') AS run,
    coalesce(json ->> '$.event.spawn_mechanism', json ->> '$.spawn_mechanism') AS mechanism,
    coalesce(json ->> '$.event.source_name', json ->> '$.source_name') AS name,
    coalesce(json ->> '$.event.tool_call_id', json ->> '$.tool_call_id') AS tool_call,
    coalesce(json ->> '$.event.description', json ->> '$.description') AS task,
    event.at AS time
FROM event
JOIN root ON root.number = event.root
JOIN session ON session.number = event.session
WHERE event.kind = 'SPAWN_SESSION_START' AND event.seq > root.forgotten
ORDER BY event.root, event.seq;
