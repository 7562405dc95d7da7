use super::{
    failure::Failure,
    key_service::KeyName,
    postgres_schema as sql,
    store::{Admission, Decision, Evidence, Hold, Item, Stage, Store, Survey, Tombstone},
};
use async_trait::async_trait;
use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, Transaction,
    tokio_postgres::types::ToSql,
};
use std::{str::FromStr as _, time::Duration};
use tokio_postgres::{IsolationLevel, NoTls, Row};

/// How long a connection, or a place in the pool, may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The store of a drill as tables of a PostgreSQL, in a schema of their own.
#[derive(Debug)]
pub(crate) struct PostgresStore {
    pool: Pool,
    schema: String,
}

impl PostgresStore {
    /// A store whose tables are in `schema`; connects when it is first used.
    pub(crate) fn new(url: &str, schema: &str, application: &str, connections: usize) -> Result<Self, Failure> {
        let unusable = |error| Failure::store("be configured by this URL", error);
        let mut config = tokio_postgres::Config::from_str(url).map_err(unusable)?;
        let options = format!("{} -c search_path={schema}", config.get_options().unwrap_or_default());
        config.options(options.trim()).application_name(application);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(PATIENCE);
        }
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(config, NoTls, recycling))
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(PATIENCE))
            .build()
            .map_err(|error| Failure::store("be configured", error))?;
        Ok(Self { pool, schema: schema.into() })
    }

    /// Creates the schema, all or nothing.
    pub(crate) async fn create(&self, subjects: i64) -> Result<(), Failure> {
        let mut client = self.client().await?;
        let failed = |error| Failure::store("create its schema", error);
        let transaction = client.transaction().await.map_err(failed)?;
        let create = format!("CREATE SCHEMA {};{}", self.schema, sql::TABLES);
        transaction.batch_execute(&create).await.map_err(failed)?;
        transaction.execute(sql::ADD_SUBJECTS, &[&subjects]).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)
    }

    /// Drops the schema, if it is there.
    pub(crate) async fn drop_schema(&self) -> Result<(), Failure> {
        let client = self.client().await?;
        let drop = format!(
            "SET client_min_messages = warning; SET lock_timeout = '30s'; DROP SCHEMA IF EXISTS {} CASCADE",
            self.schema
        );
        let failed = |error| Failure::store("drop its schema", error);
        client.batch_execute(&drop).await.map_err(failed)
    }

    /// Waits until no session of this application is left, and so nothing that was sent runs on.
    pub(crate) async fn settle(&self, application: &str) -> Result<(), Failure> {
        let begin = tokio::time::Instant::now();
        while begin.elapsed() < PATIENCE {
            let sessions: i64 = column(&self.one("count its sessions", sql::SESSIONS, &[&application]).await?, 0)?;
            if sessions == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(Failure::Unexpected("sessions of instances that have ended are still at work".into()))
    }

    async fn client(&self) -> Result<Object, Failure> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => Failure::store("be reached", error),
            error => Failure::store("be reached", error),
        })
    }

    async fn rows(&self, operation: &'static str, sql: &str, with: &Parameters<'_>) -> Result<Vec<Row>, Failure> {
        let client = self.client().await?;
        let failed = |error| Failure::store(operation, error);
        let statement = client.prepare_cached(sql).await.map_err(failed)?;
        client.query(&statement, with).await.map_err(failed)
    }

    async fn one(&self, operation: &'static str, sql: &str, with: &Parameters<'_>) -> Result<Row, Failure> {
        let missing = || Failure::store(operation, "it has no such row");
        self.rows(operation, sql, with).await?.pop().ok_or_else(missing)
    }

    async fn execute(&self, operation: &'static str, sql: &str, with: &Parameters<'_>) -> Result<u64, Failure> {
        let client = self.client().await?;
        let failed = |error| Failure::store(operation, error);
        let statement = client.prepare_cached(sql).await.map_err(failed)?;
        client.execute(&statement, with).await.map_err(failed)
    }
}

type Parameters<'a> = [&'a (dyn ToSql + Sync)];

/// A transaction at READ COMMITTED, whatever the database's default is: that is what planes run on.
async fn begin<'a>(client: &'a mut Object, operation: &'static str) -> Result<Transaction<'a>, Failure> {
    let builder = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
    builder.start().await.map_err(|error| Failure::store(operation, error))
}

async fn execute_in(
    transaction: &Transaction<'_>,
    operation: &'static str,
    sql: &str,
    with: &Parameters<'_>,
) -> Result<u64, Failure> {
    let failed = |error| Failure::store(operation, error);
    let statement = transaction.prepare_cached(sql).await.map_err(failed)?;
    transaction.execute(&statement, with).await.map_err(failed)
}

/// Whether the subject may still be written to, as the transaction sees it.
async fn admission(transaction: &Transaction<'_>, key: KeyName) -> Result<Admission, Failure> {
    let failed = |error| Failure::store("look for a tombstone", error);
    let statement = transaction.prepare_cached(sql::ADMISSION).await.map_err(failed)?;
    let row = transaction.query_one(&statement, &[&key.subject, &key.generation]).await.map_err(failed)?;
    Ok(match (column(&row, 0)?, column(&row, 1)?) {
        (true, _) => Admission::Tombstoned,
        (false, true) => Admission::Committed,
        (false, false) => Admission::KeyReplaced,
    })
}

async fn commit(transaction: Transaction<'_>, operation: &'static str) -> Result<(), Failure> {
    transaction.commit().await.map_err(|error| Failure::store(operation, error))
}

fn column<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, Failure> {
    row.try_get(at).map_err(|error| Failure::store("be read", error))
}

#[async_trait]
impl Store for PostgresStore {
    async fn current_key(&self, subject: i64) -> Result<KeyName, Failure> {
        let row = self.one("tell a subject's key", sql::CURRENT_KEY, &[&subject]).await?;
        Ok(KeyName { subject, generation: column(&row, 0)? })
    }

    async fn open_tombstone(&self, key: KeyName) -> Result<Option<Tombstone>, Failure> {
        let KeyName { subject, generation } = key;
        let rows = self.rows("look for a tombstone", sql::OPEN_TOMBSTONE, &[&subject, &generation]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let stage: &str = column(row, 2)?;
        let stage = if stage == "decided" { Stage::Decided } else { Stage::Destroying };
        Ok(Some(Tombstone { key, token: column(row, 0)?, seen: column(row, 1)?, stage }))
    }

    async fn tombstoned_subjects(&self) -> Result<Vec<i64>, Failure> {
        let rows = self.rows("look for tombstones", sql::TOMBSTONED_SUBJECTS, &[]).await?;
        rows.iter().map(|row| column(row, 0)).collect()
    }

    async fn add_item(&self, item: Item) -> Result<Admission, Failure> {
        let (operation, KeyName { subject, generation }) = ("add an item", item.key);
        let mut client = self.client().await?;
        let transaction = begin(&mut client, operation).await?;
        let admission = admission(&transaction, item.key).await?;
        if admission == Admission::Committed {
            let with: &Parameters<'_> = &[&item.id, &subject, &generation, &item.wrapped, &item.sealed];
            execute_in(&transaction, operation, sql::ADD_ITEM, with).await?;
        }
        commit(transaction, operation).await?;
        Ok(admission)
    }

    async fn latest_item(&self, key: KeyName) -> Result<Option<i64>, Failure> {
        let rows = self.rows("find an item", sql::LATEST_ITEM, &[&key.subject, &key.generation]).await?;
        rows.first().map(|row| column(row, 0)).transpose()
    }

    async fn add_hold(&self, hold: Hold) -> Result<Admission, Failure> {
        let (operation, KeyName { subject, generation }) = ("add a hold", hold.key);
        let mut client = self.client().await?;
        let transaction = begin(&mut client, operation).await?;
        let mut admission = admission(&transaction, hold.key).await?;
        if admission == Admission::Committed {
            let with: &Parameters<'_> = &[&hold.id, &hold.item, &subject, &generation];
            if execute_in(&transaction, operation, sql::ADD_HOLD, with).await? == 0 {
                admission = Admission::NoItem;
            }
        }
        commit(transaction, operation).await?;
        Ok(admission)
    }

    async fn lift_holds(&self, key: KeyName, term: Duration) -> Result<Vec<i64>, Failure> {
        let with: &Parameters<'_> = &[&key.subject, &key.generation, &(term.as_secs_f64() * 1000.0)];
        let rows = self.rows("lift holds", sql::LIFT_HOLDS, with).await?;
        rows.iter().map(|row| column(row, 0)).collect()
    }

    async fn survey(&self, key: KeyName) -> Result<Survey, Failure> {
        let with: &Parameters<'_> = &[&key.subject, &key.generation];
        let items = self.rows("list a subject's items", sql::ITEMS, with).await?;
        let items = items.iter().map(|row| column(row, 0)).collect::<Result<_, _>>()?;
        let held = column(&self.one("look for holds", sql::HELD, with).await?, 0)?;
        Ok(Survey { items, held })
    }

    async fn add_tombstone(&self, tombstone: &Tombstone) -> Result<bool, Failure> {
        let Tombstone { key, token, seen, stage: _ } = tombstone;
        let with: &Parameters<'_> = &[&key.subject, &key.generation, token, seen];
        Ok(self.execute("add a tombstone", sql::ADD_TOMBSTONE, with).await? == 1)
    }

    async fn take_over(&self, found: &Tombstone, anew: &Tombstone) -> Result<bool, Failure> {
        let KeyName { subject, generation } = found.key;
        let with: &Parameters<'_> = &[&subject, &generation, &found.token, &anew.token, &anew.seen];
        Ok(self.execute("take an erasure over", sql::TAKE_OVER, with).await? == 1)
    }

    async fn withdraw(&self, found: &Tombstone) -> Result<bool, Failure> {
        let with: &Parameters<'_> = &[&found.key.subject, &found.key.generation, &found.token];
        Ok(self.execute("withdraw an erasure", sql::WITHDRAW, with).await? == 1)
    }

    async fn begin_destroying(&self, tombstone: &Tombstone) -> Result<bool, Failure> {
        let with: &Parameters<'_> = &[&tombstone.key.subject, &tombstone.key.generation, &tombstone.token];
        Ok(self.execute("mark an erasure", sql::BEGIN_DESTROYING, with).await? == 1)
    }

    async fn finish(&self, key: KeyName) -> Result<bool, Failure> {
        let (operation, with): (_, &Parameters<'_>) = ("finish an erasure", &[&key.subject, &key.generation]);
        let mut client = self.client().await?;
        let transaction = begin(&mut client, operation).await?;
        let closed = execute_in(&transaction, operation, sql::CLOSE_TOMBSTONE, with).await? == 1;
        if closed {
            execute_in(&transaction, operation, sql::MARK_ERASED, with).await?;
            execute_in(&transaction, operation, sql::NEXT_KEY, with).await?;
        }
        commit(transaction, operation).await?;
        Ok(closed)
    }

    async fn evidence(&self) -> Result<Evidence, Failure> {
        let mut evidence = Evidence::default();
        for row in self.rows("list its items", sql::ALL_ITEMS, &[]).await? {
            let key = KeyName { subject: column(&row, 1)?, generation: column(&row, 2)? };
            let item = Item { id: column(&row, 0)?, key, wrapped: column(&row, 3)?, sealed: column(&row, 4)? };
            evidence.items.insert(item.id, item);
        }
        for row in self.rows("list its holds", sql::ALL_HOLDS, &[]).await? {
            evidence.holds.insert(column(&row, 0)?, column(&row, 1)?);
        }
        for row in self.rows("list its tombstones", sql::ALL_TOMBSTONES, &[]).await? {
            let key = KeyName { subject: column(&row, 0)?, generation: column(&row, 1)? };
            let seen = column::<Vec<i64>>(&row, 3)?.into_iter().collect();
            evidence.erasures.insert(key, Decision { decided: column(&row, 2)?, seen });
        }
        Ok(evidence)
    }
}
