use super::{
    audit::Violations,
    failure::Failure,
    instance::Orders,
    key_server::KeyServer,
    options::Options,
    phase::{Lock, Phase, collect},
    postgres_store::PostgresStore,
    process_fleet::ProcessFleet,
    store::Store as _,
    vault::Vault,
};
use indicatif::ProgressBar;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A phase on PostgreSQL: instances are processes, and this one is the key service.
///
/// The schema is dropped in any case.
pub(crate) async fn run(
    options: &Options,
    url: &str,
    lock: Lock,
    progress: &ProgressBar,
    interrupt: &CancellationToken,
) -> Result<Phase, Failure> {
    let schema = format!("coordinator_drill_{:016x}", rand::random::<u64>());
    let store = PostgresStore::new(url, &schema, "coordinator drill", 1)?;
    if let Err(failure) = store.create(options.subjects).await {
        // The commit may have been done although its answer was lost; where the server is away, so is the schema.
        let _ = store.drop_schema().await;
        return Err(failure);
    }
    let phase = tokio::select! {
        biased;
        () = interrupt.cancelled() => Err(Failure::Interrupted),
        phase = work(options, url, &schema, &store, lock, progress) => phase,
    };
    let dropped = store.drop_schema().await;
    let phase = phase?;
    dropped?;
    Ok(phase)
}

async fn work(
    options: &Options,
    url: &str,
    schema: &str,
    store: &PostgresStore,
    lock: Lock,
    progress: &ProgressBar,
) -> Result<Phase, Failure> {
    let vault = Vault::new();
    let keys = KeyServer::start(vault.clone()).await?;
    let (sender, events) = mpsc::unbounded_channel();
    let orders = Orders {
        name: String::new(),
        url: url.into(),
        schema: schema.into(),
        lock,
        subjects: options.subjects,
        keys: keys.address(),
    };
    let fleet = ProcessFleet::start(options.instances, orders, sender).await?;
    let stop = CancellationToken::new();
    let (killed, (ledger, lasted)) =
        tokio::join!(fleet.run(options.kill, &stop), collect(events, options.length(), lock, &stop, progress));
    let killed = killed?;
    keys.settle().await;
    store.settle(schema).await?;
    let violations = Violations::count(&ledger, &store.evidence().await?, &vault);
    Ok(Phase { ledger, violations, lasted, killed })
}
