//! x
crate::trials![];

pub(crate) async fn in_own_network() {}
