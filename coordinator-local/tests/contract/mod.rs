//! What every coordinator promises, as cases over any of them.
//!
//! Each case gets two handles that exclude each other: twice the same coordinator, or two over one backend.

#![allow(unreachable_pub, reason = "a library, that every crate of cases includes")]

use coordinator_local::{ErasureCoordinator, ErasureCoordinatorExt, Lease, Mode, Scope};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

pub mod cancel;
pub mod exclusion;
pub mod fairness;
pub mod inspection;
pub mod irreversible;
pub mod release;
pub mod several;
pub mod shutdown;
pub mod under_lock;

pub type Handle = Arc<dyn ErasureCoordinator>;

/// Longer than anything here takes; who waits for it has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough for what must not happen to happen.
pub const MOMENT: Duration = Duration::from_millis(60);

/// A scope of its own for each call.
pub fn fresh_scope() -> Scope {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    Scope::new(format!("case/{}", NEXT.fetch_add(1, Ordering::Relaxed))).expect("a valid name")
}

/// The lease, by then at the latest.
pub async fn soon(coordinator: &Handle, scope: &Scope, mode: Mode) -> Lease {
    let lease = coordinator.acquire_within(scope, mode, PATIENCE).await.expect("no failure");
    lease.unwrap_or_else(|| panic!("{mode} is not to be had"))
}

pub async fn is_free(coordinator: &Handle, scope: &Scope) {
    soon(coordinator, scope, Mode::Exclusive).await.release().await.expect("held to the end");
}

/// Waits until the coordinator says that somebody waits for the scope.
pub async fn somebody_waits(coordinator: &Handle, scope: &Scope) {
    tokio::time::timeout(PATIENCE, async {
        while coordinator.inspect(scope).await.expect("an answer").waiters.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("somebody waits");
}

/// A test per case over the two handles that `$backend` makes.
macro_rules! contract {
    ($name:ident, $backend:expr) => {
        crate::contract::cases! { $name, $backend,
            cancel: a_dropped_acquire_leaves_nothing_held_after_any_number_of_polls,
            cancel: a_dropped_waiter_is_out_of_the_way_after_any_number_of_polls,
            cancel: a_dropped_exclusive_waiter_lets_shared_ones_in,
            cancel: a_storm_of_time_outs_strands_nobody,
            cancel: an_aborted_holder_frees,
            exclusion: an_exclusive_lease_excludes_all_others,
            exclusion: a_shared_lease_excludes_exclusive_ones_only,
            exclusion: shared_leases_coexist_however_long_they_are_held,
            exclusion: other_scopes_are_not_excluded,
            exclusion: exclusion_holds_under_load,
            exclusion: a_try_after_a_drop_in_the_same_task_succeeds,
            exclusion: a_try_after_a_release_succeeds_on_the_other_handle,
            exclusion: fencing_tokens_grow_with_every_call,
            fairness: a_flow_of_shared_leases_does_not_starve_an_exclusive_waiter,
            fairness: a_flow_of_exclusive_leases_does_not_starve_a_shared_waiter,
            inspection: looking_takes_nothing,
            inspection: holders_and_waiters_are_seen,
            irreversible: a_dropped_caller_neither_cancels_nor_frees,
            irreversible: an_aborted_task_neither_cancels_nor_frees,
            irreversible: a_dropped_runtime_neither_cancels_nor_frees,
            irreversible: a_release_waits_for_the_step,
            irreversible: a_step_on_a_lost_lease_never_begins,
            release: a_released_scope_is_free,
            release: a_dropped_lease_frees,
            release: a_panic_frees,
            release: a_dropped_runtime_frees,
            release: a_lost_lease_says_so_everywhere,
            several: opposite_orders_do_not_deadlock,
            several: a_scope_named_twice_is_refused,
            several: a_dropped_acquire_of_several_holds_none,
            several: several_are_lost_and_released_together,
            shutdown: new_requests_and_waiters_are_refused,
            shutdown: leases_are_waited_for,
            shutdown: what_is_left_is_told_lost_and_freed,
            under_lock: the_scope_is_held_during_the_work_and_free_after_it,
            under_lock: the_error_of_the_work_wins,
            under_lock: a_panic_of_the_work_frees,
            under_lock: a_second_under_lock_in_the_same_task_is_an_error,
            under_lock: it_can_be_spawned,
            under_lock: a_loss_drops_the_work_and_is_told,
        }
    };
}

macro_rules! cases {
    ($name:ident, $backend:expr, $($module:ident: $case:ident,)*) => {
        mod $name {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let (one, two, _kept) = $backend;
                    crate::contract::$module::$case(one, two).await;
                }
            )*
        }
    };
}

pub(crate) use {cases, contract};
