//! An erasure under the scope's lock, on PostgreSQL: `quick_start postgres://…`.

use coordinator_postgres::{Distributed, Error, Mode, PostgresCoordinator, Scope, under_lock};
use std::{sync::Arc, time::Duration};

/// A plane beside a shared store takes the proof that its lock spans instances.
async fn erase(lock: &Distributed, subject: &str) -> Result<(), Error> {
    under_lock(&**lock, &Scope::new(subject)?, Mode::Exclusive, async |lease| {
        // Check the legal holds and commit the tombstone, under this token; then:
        println!("the tombstone of {} carries token {}", lease.scope(), lease.fence().await?);
        lease.irreversible(Duration::from_secs(5), async { println!("the key is destroyed") }).await
    })
    .await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).or_else(|| std::env::var("COORDINATOR_TEST_POSTGRES_URL").ok());
    let url = url.unwrap_or_else(|| "postgres://postgres@localhost/postgres".into());
    let lock = Distributed::from(Arc::new(PostgresCoordinator::connect(&url).await?));
    erase(&lock, "subject-42").await
}
