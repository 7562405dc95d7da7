//! An erasure under its subject's lock: `REDIS_URL=redis://… cargo run --example quick_start`.

use coordinator_redis::{Distributed, Error, Mode, RedisCoordinator, Scope, under_lock};
use std::{sync::Arc, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://localhost".into());
    let lock = Distributed::from(Arc::new(RedisCoordinator::connect(&url).await?));
    let subject = Scope::new("tenant-7/subject-42")?;
    under_lock(&*lock, &subject, Mode::Exclusive, async |lease| {
        println!("holds are checked, the tombstone is committed under token {}", lease.fence().await?);
        lease.irreversible(Duration::from_secs(5), async { println!("the key is destroyed") }).await
    })
    .await
}
