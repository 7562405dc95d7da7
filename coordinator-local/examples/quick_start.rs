//! An erasure excludes the writes to its subject; `cargo run --example quick_start`.

use coordinator_local::{ErasureCoordinator, Error, LocalCoordinator, Mode, Scope, under_lock};
use std::{sync::Arc, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Error> {
    // One process. `FileCoordinator::open("some/directory")?` spans the processes of a host in the same way.
    let coordinator: Arc<dyn ErasureCoordinator> = Arc::new(LocalCoordinator::new());
    let subject = Scope::new("tenant-7/subject-42")?;

    // Writes hold the subject shared: they don't wait for each other.
    under_lock(&coordinator, &subject, Mode::Shared, async |_| {
        println!("an item is sealed and written");
        Ok::<_, Error>(())
    })
    .await?;

    // An erasure holds it exclusive: no write is half-way while the key is destroyed.
    under_lock(&coordinator, &subject, Mode::Exclusive, async |lease| {
        println!("holds are checked, a tombstone is committed");
        lease.irreversible(Duration::from_secs(5), async { println!("the key is destroyed") }).await
    })
    .await
}
