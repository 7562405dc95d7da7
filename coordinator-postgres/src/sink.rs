use crate::error::classify;
use coordinator_core::{Error, ErrorKind, FencingToken, Mode, Scope};
use tokio_postgres::GenericClient;

/// The table that [`admit`] keeps; one row per scope that ever presented a token.
pub const CREATE_FENCE_TABLE: &str = "CREATE TABLE IF NOT EXISTS coordinator_fence (
    scope bytea PRIMARY KEY,
    last_exclusive bigint NOT NULL,
    last_any bigint NOT NULL
)";

/// The rule of [`FencingGate`](coordinator_core::FencingGate), in one statement.
const ADMIT: &str = "INSERT INTO coordinator_fence AS seen (scope, last_exclusive, last_any)
    VALUES ($1, CASE WHEN $3 THEN $2 ELSE 0 END, $2)
    ON CONFLICT (scope) DO UPDATE SET
        last_any = greatest(seen.last_any, $2),
        last_exclusive = CASE WHEN $3 THEN $2 ELSE seen.last_exclusive END
    WHERE CASE WHEN $3
        THEN $2 > seen.last_any OR ($2 = seen.last_any AND $2 = seen.last_exclusive)
        ELSE $2 > seen.last_exclusive END";

/// Whether an effect under this token may happen, decided and remembered in the transaction of `client`.
///
/// Call it in the transaction of the write that it guards, and roll that back on `false`: then a holder that was
/// frozen past its lease can't write after its successor. The scope's row is locked until the transaction ends. A
/// shared token passes above the last exclusive one, an exclusive token above the last of any kind; a token may be
/// presented again by its holder. The row holds the scope's SHA-256 digest, not its name.
///
/// ```no_run
/// # use coordinator_postgres::{Error, Lease, admit, tokio_postgres::Client};
/// async fn guarded(store: &mut Client, lease: &Lease) -> Result<(), Box<dyn std::error::Error>> {
///     let token = lease.fence().await?;
///     let transaction = store.transaction().await?;
///     if !admit(&transaction, lease.scope(), lease.mode(), token).await? {
///         return Err("a later holder was here: this effect must not happen".into());
///     }
///     // … the write itself …
///     transaction.commit().await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
/// [`Unavailable`](ErrorKind::Unavailable) when the store does not answer or lacks the table;
/// [`Invalid`](ErrorKind::Invalid) for a token that a `bigint` can't hold.
///
/// # Cancel safety
/// May be dropped at any time; what became of it is the transaction's outcome.
pub async fn admit<C: GenericClient + Sync>(
    client: &C,
    scope: &Scope,
    mode: Mode,
    token: FencingToken,
) -> Result<bool, Error> {
    let token = i64::try_from(token.get()).map_err(|_| {
        Error::new(ErrorKind::Invalid, "admit", format!("the token {token} does not fit the column's bigint"))
    })?;
    let exclusive = mode == Mode::Exclusive;
    let statement = client
        .prepare_typed(
            ADMIT,
            &[tokio_postgres::types::Type::BYTEA, tokio_postgres::types::Type::INT8, tokio_postgres::types::Type::BOOL],
        )
        .await
        .map_err(|error| classify("admit", error))?;
    let rows = client.execute(&statement, &[&&scope.digest()[..], &token, &exclusive]).await;
    rows.map(|rows| rows == 1).map_err(|error| classify("admit", error))
}
