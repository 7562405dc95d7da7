//! An erasure under its subject's lock: `ETCD_ENDPOINTS=http://…,http://… cargo run --example quick_start`.

use coordinator_etcd::{Distributed, Error, EtcdCoordinator, Mode, Scope, under_lock};
use std::{sync::Arc, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let endpoints = std::env::var("ETCD_ENDPOINTS").unwrap_or_else(|_| "http://localhost:2379".into());
    let lock = Distributed::from(Arc::new(EtcdCoordinator::connect(&endpoints).await?));
    let subject = Scope::new("tenant-7/subject-42")?;
    under_lock(&*lock, &subject, Mode::Exclusive, async |lease| {
        println!("holds are checked, the tombstone is committed under token {}", lease.fence().await?);
        lease.irreversible(Duration::from_secs(5), async { println!("the key is destroyed") }).await
    })
    .await
}
