//! x
crate::trials![];
