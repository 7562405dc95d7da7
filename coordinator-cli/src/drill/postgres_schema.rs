//! The tables of a drill; every statement names them by the connection's `search_path`.

/// All tables, for a `search_path` that leads to their schema.
///
/// `ordinal` is the store's own order of events: what a decision has seen has a smaller number than the decision.
pub(crate) const TABLES: &str = "
    CREATE SEQUENCE ordinal;
    CREATE TABLE subjects (
        subject bigint PRIMARY KEY,
        generation bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE items (
        id bigint PRIMARY KEY,
        subject bigint NOT NULL,
        generation bigint NOT NULL,
        wrapped bytea NOT NULL,
        sealed bytea NOT NULL,
        added bigint NOT NULL DEFAULT nextval('ordinal'),
        erased boolean NOT NULL DEFAULT false
    );
    CREATE INDEX ON items (subject, generation, added);
    CREATE TABLE holds (
        id bigint PRIMARY KEY,
        item bigint NOT NULL,
        subject bigint NOT NULL,
        generation bigint NOT NULL,
        placed timestamptz NOT NULL DEFAULT clock_timestamp(),
        lifted bigint
    );
    CREATE INDEX ON holds (subject, generation);
    CREATE TABLE tombstones (
        subject bigint NOT NULL,
        generation bigint NOT NULL,
        token bigint NOT NULL,
        stage text NOT NULL DEFAULT 'decided',
        decided bigint NOT NULL DEFAULT nextval('ordinal'),
        seen bigint[] NOT NULL,
        PRIMARY KEY (subject, generation)
    )";

pub(crate) const ADD_SUBJECTS: &str =
    "INSERT INTO subjects (subject) SELECT subject FROM generate_series(0, $1::bigint - 1) AS subject";

pub(crate) const CURRENT_KEY: &str = "SELECT generation FROM subjects WHERE subject = $1";

pub(crate) const OPEN_TOMBSTONE: &str = "SELECT token, seen, stage FROM tombstones
    WHERE subject = $1 AND generation = $2 AND stage <> 'done'";

pub(crate) const TOMBSTONED_SUBJECTS: &str = "SELECT DISTINCT subject FROM tombstones WHERE stage <> 'done'";

/// What a write or a hold looks at again, in its own transaction.
pub(crate) const ADMISSION: &str = "SELECT
    EXISTS (SELECT FROM tombstones WHERE subject = $1 AND generation = $2),
    EXISTS (SELECT FROM subjects WHERE subject = $1 AND generation = $2)";

pub(crate) const ADD_ITEM: &str =
    "INSERT INTO items (id, subject, generation, wrapped, sealed) VALUES ($1, $2, $3, $4, $5)";

pub(crate) const LATEST_ITEM: &str = "SELECT id FROM items
    WHERE subject = $1 AND generation = $2 AND NOT erased ORDER BY added DESC LIMIT 1";

/// The hold, if its item exists.
pub(crate) const ADD_HOLD: &str = "INSERT INTO holds (id, item, subject, generation)
    SELECT $1, id, subject, generation FROM items
    WHERE id = $2 AND subject = $3 AND generation = $4 AND NOT erased";

pub(crate) const LIFT_HOLDS: &str = "UPDATE holds SET lifted = nextval('ordinal')
    WHERE subject = $1 AND generation = $2 AND lifted IS NULL
        AND placed <= clock_timestamp() - $3 * interval '1 millisecond'
    RETURNING id";

pub(crate) const ITEMS: &str = "SELECT id FROM items WHERE subject = $1 AND generation = $2";

pub(crate) const HELD: &str =
    "SELECT EXISTS (SELECT FROM holds WHERE subject = $1 AND generation = $2 AND lifted IS NULL)";

pub(crate) const ADD_TOMBSTONE: &str = "INSERT INTO tombstones (subject, generation, token, seen)
    VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

pub(crate) const TAKE_OVER: &str = "UPDATE tombstones SET token = $4, seen = $5, decided = nextval('ordinal')
    WHERE subject = $1 AND generation = $2 AND token = $3 AND stage = 'decided'";

pub(crate) const WITHDRAW: &str =
    "DELETE FROM tombstones WHERE subject = $1 AND generation = $2 AND token = $3 AND stage = 'decided'";

pub(crate) const BEGIN_DESTROYING: &str = "UPDATE tombstones SET stage = 'destroying'
    WHERE subject = $1 AND generation = $2 AND token = $3 AND stage = 'decided'";

pub(crate) const CLOSE_TOMBSTONE: &str =
    "UPDATE tombstones SET stage = 'done' WHERE subject = $1 AND generation = $2 AND stage = 'destroying'";

pub(crate) const MARK_ERASED: &str = "UPDATE items SET erased = true WHERE subject = $1 AND generation = $2";

pub(crate) const NEXT_KEY: &str =
    "UPDATE subjects SET generation = generation + 1 WHERE subject = $1 AND generation = $2";

pub(crate) const ALL_ITEMS: &str = "SELECT id, subject, generation, wrapped, sealed FROM items";

pub(crate) const ALL_HOLDS: &str = "SELECT id, lifted FROM holds";

pub(crate) const ALL_TOMBSTONES: &str = "SELECT subject, generation, decided, seen FROM tombstones";

/// Sessions of the instances; they end a moment after their process, with the last statement done.
pub(crate) const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
