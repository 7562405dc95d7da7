//! What `PostgresCoordinator` promises beyond the contract's cases: named tests, each on a real server.

#[path = "../support/mod.rs"]
mod support;

mod cancel;
mod cap;
mod fairness;
mod fencing;
mod full_table;
mod identity;
mod inspection;
mod loss;
mod prior_art;
mod revocation;
mod sessions;
mod store;
mod waiting;
