//! What every coordinator promises, as cases over two handles that exclude each other: twice the same coordinator, and
//! two instances where the backend reaches that far.

mod cancel;
mod exclusion;
mod fairness;
mod inspection;
mod irreversible;
mod release;
mod several;
mod shutdown;
mod under_lock;

use super::{Case, Need};
use crate::Handle;
use std::sync::Arc;
use std::time::Duration;

/// Long enough for what must not happen to happen.
const MOMENT: Duration = Duration::from_millis(60);

pub(super) fn cases() -> Vec<Case> {
    [
        cancel::cases(),
        exclusion::cases(),
        fairness::cases(),
        inspection::cases(),
        irreversible::cases(),
        release::cases(),
        several::cases(),
        shutdown::cases(),
        under_lock::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a file of cases offers, each for one instance and for two.
macro_rules! pairs {
    ($($name:ident),* $(,)?) => {
        pub(super) fn cases() -> Vec<crate::cases::Case> {
            let module = module_path!().rsplit("::").next().unwrap_or_default();
            [$(crate::cases::contract::pair(module, stringify!($name), $name, $name)),*].into_iter().flatten().collect()
        }
    };
}
use pairs;

fn pair<A: Future<Output = ()> + 'static>(
    module: &str,
    name: &str,
    alone: impl FnOnce(Handle, Handle) -> A + Send + 'static,
    two: impl FnOnce(Handle, Handle) -> A + Send + 'static,
) -> [Case; 2] {
    [
        super::case(&format!("cases::one_instance::{module}"), name, &[], |stage| async move {
            let one = stage.connect().await;
            alone(Arc::clone(&one), one).await;
        }),
        super::case(&format!("cases::two_instances::{module}"), name, &[Need::Processes], |stage| async move {
            two(stage.connect().await, stage.connect().await).await;
        }),
    ]
}
