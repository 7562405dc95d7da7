//! What breaks around a coordinator on etcd, on real servers. Run under `scripts/with-servers`.

#[path = "../support/mod.rs"]
mod support;

mod access;
mod elections;
mod encryption;
mod guarding;
mod refusals;
mod residue;
mod revocation;
mod waiting;
