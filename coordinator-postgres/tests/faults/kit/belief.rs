//! Until when a holder believed in its lease.

use coordinator_postgres::Lease;
use coordinator_testkit::Moment;
use std::sync::Arc;
use std::time::Duration;

/// Asks the lease every millisecond on a thread of its own; answers, since boot, when it last said that it is live.
pub(crate) fn watch(lease: &Arc<Lease>) -> std::thread::JoinHandle<Moment> {
    let lease = Arc::downgrade(lease);
    let mut believed = Moment::now();
    std::thread::spawn(move || {
        while let Some(lease) = lease.upgrade() {
            let asked = Moment::now();
            if lease.ensure_live().is_err() {
                break;
            }
            believed = asked;
            drop(lease);
            std::thread::sleep(Duration::from_millis(1));
        }
        believed
    })
}
