//! What breaks around a coordinator on PostgreSQL, on real servers, links and processes.
//!
//! Run under `scripts/with-servers`. The program starts itself anew as an instance that is killed or frozen, and as
//! a test in a network of its own.

mod connect;
mod crash;
mod cut;
mod kit;
mod network;
mod pause;
mod refusals;
mod restart;
mod roles;
mod stall;
mod storm;
mod tls;

use libtest_mimic::{Arguments, Trial};
use std::future::Future;

/// What a file of tests offers; one that is not named here is unused code, which the lints refuse.
macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::trial(concat!(module_path!(), "::", stringify!($name)), $name)),*]
        }
    };
}
use trials;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--as-instance") => return block_on(kit::agent::run(&arguments[1..])),
        Some("--in-own-network") => return block_on(cut::in_own_network()),
        _ => {}
    }
    let trials = [
        connect::trials(),
        crash::trials(),
        cut::trials(),
        network::trials(),
        pause::trials(),
        refusals::trials(),
        restart::trials(),
        roles::trials(),
        stall::trials(),
        storm::trials(),
        tls::trials(),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit();
}

fn trial<F: Future<Output = ()>>(path: &str, test: impl Fn() -> F + Send + 'static) -> Trial {
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    Trial::test(name, move || {
        block_on(test());
        Ok(())
    })
}

fn block_on<F: Future<Output = ()>>(future: F) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().expect("threads").block_on(future);
}
