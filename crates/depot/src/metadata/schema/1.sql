-- What tells this depot from every other, for whoever writes down where a workspace is.
CREATE TABLE identity (id TEXT NOT NULL);
INSERT INTO identity (id) VALUES (lower(hex(randomblob(16))));

-- Content by the BLAKE3 of its bytes. `data` is NULL where the blob store holds it; `touched` is the time (ms) of the newest change that
-- referred to it, so that a sweep never takes what a change under way relies on. A list is the parts of a larger content.
CREATE TABLE content (
    number INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    list INTEGER NOT NULL,
    size INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    touched INTEGER NOT NULL,
    data BLOB
);

CREATE INDEX content_list ON content (hash) WHERE list = 1;

-- Blobs written under relaxed durability: verified and synced when the depot is next opened.
CREATE TABLE unsynced (hash BLOB PRIMARY KEY) WITHOUT ROWID;

-- `parent` and `fork` are the lineage: the point of another workspace at which this one begins. A flat workspace has its own copy of
-- every entry of its lineage and no longer looks there. A number is never used again, since handles of a workspace that is gone have it.
-- `head` is the newest change as far as the rows of changes do not tell it themselves.
CREATE TABLE workspace (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL UNIQUE,
    name TEXT UNIQUE,
    kind TEXT NOT NULL,
    config TEXT NOT NULL,
    parent INTEGER,
    fork INTEGER,
    flat INTEGER NOT NULL DEFAULT 0,
    head INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    deleted INTEGER
);
CREATE INDEX workspace_parent ON workspace (parent) WHERE parent IS NOT NULL;

-- `undone_by` is the change that holds this one reversed, NULL while it stands. `began` names the first paths at which an entry begins
-- with it, each with a zero byte after it; the others are found by the entries themselves. `indexed` is 0 where the id itself tells the
-- workspace and the number.
CREATE TABLE change (
    workspace INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    operation TEXT NOT NULL,
    summary TEXT NOT NULL,
    agent TEXT,
    session TEXT,
    tool_call TEXT,
    door TEXT NOT NULL,
    command TEXT,
    undone_by INTEGER,
    began BLOB,
    indexed INTEGER NOT NULL,
    PRIMARY KEY (workspace, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX change_id ON change (id) WHERE indexed = 1;
CREATE INDEX change_session ON change (workspace, session, seq) WHERE session IS NOT NULL;
CREATE INDEX change_tool_call ON change (workspace, tool_call, seq) WHERE tool_call IS NOT NULL;

-- The change `seq` reverses the change `target`.
CREATE TABLE reversal (
    workspace INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    target INTEGER NOT NULL,
    PRIMARY KEY (workspace, seq, target)
) WITHOUT ROWID;
CREATE INDEX reversal_target ON reversal (workspace, target);

-- The temporal tree: an entry is valid from the change `since` until the change `until`, which is the largest number while it lives.
-- What lives is together, in the order of paths, and a new file is one row in one place; only what has ended is indexed by its path too.
-- `listed` is 1 where the change `since` names the path in its own row. `place` is the number that the content `hash` had when the row was
-- made, to find it at once where it still has it. Kinds: 0 nothing (hides what the lineage would show), 1 file,
-- 2 directory, 3 symbolic link.
CREATE TABLE entry (
    workspace INTEGER NOT NULL,
    until INTEGER NOT NULL,
    path BLOB NOT NULL,
    since INTEGER NOT NULL,
    listed INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    mode INTEGER NOT NULL,
    size INTEGER NOT NULL,
    hash BLOB,
    place INTEGER,
    target TEXT,
    created INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    PRIMARY KEY (workspace, until, path)
) WITHOUT ROWID;
CREATE INDEX entry_past ON entry (workspace, path, since) WHERE until < 9223372036854775807;
CREATE INDEX entry_since ON entry (workspace, since) WHERE listed = 0 AND since > 0;

-- A change moved the entry at `source`, with everything below it, to `place`, as its `step`th move.
CREATE TABLE move (
    workspace INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    step INTEGER NOT NULL,
    source BLOB NOT NULL,
    place BLOB NOT NULL,
    PRIMARY KEY (workspace, seq, step)
) WITHOUT ROWID;

-- With the change `seq` (or at it, where nothing differed) the workspace took in everything up to the change `point` of `source`.
CREATE TABLE merge (
    workspace INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    source INTEGER NOT NULL,
    point INTEGER NOT NULL,
    PRIMARY KEY (workspace, seq, source)
) WITHOUT ROWID;
CREATE INDEX merge_source ON merge (source, point);

CREATE TABLE snapshot (
    workspace INTEGER NOT NULL,
    label TEXT NOT NULL,
    point_workspace INTEGER NOT NULL,
    point_seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    lazy INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace, label)
) WITHOUT ROWID;

-- Workspaces whose files live elsewhere: where that is, the newest record of the log that is in the journal, and the first change from
-- which on every file was known.
CREATE TABLE journal (
    workspace INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    place TEXT,
    ingested INTEGER NOT NULL DEFAULT 0,
    whole INTEGER
);
CREATE UNIQUE INDEX journal_place ON journal (kind, place) WHERE place IS NOT NULL;

-- The storage's own version of a file when the journal last met it, so that what has not changed since need not be read again.
CREATE TABLE seen (
    workspace INTEGER NOT NULL,
    path BLOB NOT NULL,
    token TEXT NOT NULL,
    PRIMARY KEY (workspace, path)
) WITHOUT ROWID;

-- What retention left of a journal: the state after the change `oldest` and the changes after it. `at` is when that state came to be,
-- `keep` what the workspace is to keep when retention runs.
CREATE TABLE retention (
    workspace INTEGER PRIMARY KEY,
    keep TEXT,
    oldest INTEGER NOT NULL DEFAULT 0,
    at INTEGER NOT NULL DEFAULT 0
);

-- Workspaces that nobody sees: one that is being imported, or one that is being removed for good. What an end of the process leaves
-- of either is removed by the next collection.
CREATE TABLE unseen (
    workspace INTEGER PRIMARY KEY,
    removing INTEGER NOT NULL,
    since INTEGER NOT NULL
);
