use coordinator_core::{Error, ErrorKind, FencingToken};

/// One step of the server, on the session that holds the key, and only if it does.
///
/// The transaction id alone would go back after a crash; the message in the same transaction forces it to disk. The
/// timeline makes it grow across a promotion.
pub(crate) const FENCE: &str = "SELECT pg_current_xact_id()::text, pg_walfile_name(pg_current_wal_insert_lsn()),
    pg_logical_emit_message(true, 'coordinator', '')::text
    WHERE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND pid = pg_backend_pid() AND (classid::bigint << 32) | objid::bigint = $1
        AND (mode = 'ExclusiveLock') = $2)";

/// (epoch + timeline) in the upper 16 bits, the transaction id in the lower 48.
pub(crate) fn token(xid: &str, wal_file: &str, epoch: u16) -> Result<FencingToken, Error> {
    let unfit = |what: String| Error::new(ErrorKind::Unavailable, "fence", what);
    let xid: u64 = xid.parse().map_err(|_| unfit(format!("the server's transaction id {xid} is no number")))?;
    let timeline = wal_file.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let timeline = timeline.ok_or_else(|| unfit(format!("the server's WAL file {wal_file} names no timeline")))?;
    let upper = u16::try_from(timeline + u64::from(epoch)).map_err(|_| {
        unfit(format!("timeline {timeline} and fence epoch {epoch} don't fit 16 bits of a token any more"))
    })?;
    if xid >> 48 != 0 {
        return Err(unfit(format!("the transaction id {xid} does not fit 48 bits of a token any more")));
    }
    Ok(FencingToken::new(u64::from(upper) << 48 | xid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_timelines_and_epochs_are_greater() {
        let of = |xid, file, epoch| token(xid, file, epoch).expect("fits").get();
        assert_eq!(of("740", "000000010000000000000001", 0), (1 << 48) + 740);
        assert!(of("3", "000000020000000000000001", 0) > of("9999999", "000000010000000000000009", 0));
        assert!(of("3", "000000010000000000000001", 2) > of("9999999", "000000020000000000000009", 0));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(token("281474976710656", "000000010000000000000001", 0).is_err());
        assert!(token("1", "0001000000000000000000AA", 0).is_err());
        assert!(token("1", "0000FFFF0000000000000001", 1).is_err());
        assert!(token("x", "000000010000000000000001", 0).is_err());
        assert!(token("1", "", 0).is_err());
    }
}
