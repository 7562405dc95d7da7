//! How the server's protocol divides into messages.

use coordinator_testkit::Framing;
use coordinator_testkit::faults::Side;

/// One byte of kind, but not in the first message of a client, then the length of what follows.
pub(crate) const POSTGRES: Framing = Framing::Lengths(|bytes, from, is_first| {
    let kind = usize::from(!(is_first && from == Side::Instance));
    let length = u32::from_be_bytes(*bytes.get(kind..)?.first_chunk()?) as usize;
    Some(length + kind)
});
