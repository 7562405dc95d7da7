//! How HTTP/2, on which etcd's protocol stands, divides into messages.

use coordinator_testkit::Framing;
use coordinator_testkit::faults::Side;

/// The client's preface; then frames, each with nine bytes of head, of which the first three are the length of the rest.
pub(crate) const HTTP2: Framing = Framing::Lengths(|bytes, from, is_first| {
    if is_first && from == Side::Instance {
        return Some(24);
    }
    let head: &[u8; 9] = bytes.first_chunk()?;
    Some(9 + u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize)
});
