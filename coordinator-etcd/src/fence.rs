use crate::grant::Place;
use crate::session::LIMIT;
use coordinator_core::{Error, ErrorKind, FencingToken};
use etcd_client::ResponseHeader;

/// The revision in which the place's key is written again, which nobody can do once it is gone (E5).
pub(crate) async fn fence(place: &Place, epoch: u16) -> Result<FencingToken, Error> {
    let state = &place.session.state;
    let answer = place.ask("fence", LIMIT, vec![state.put(&place.key)]).await?.value;
    if !answer.succeeded() {
        return Err(state.not_held("fence"));
    }
    token(answer.header().map_or(0, ResponseHeader::revision), epoch)
}

/// The epoch in the upper 16 bits, the revision in the lower 48.
fn token(revision: i64, epoch: u16) -> Result<FencingToken, Error> {
    let fits = u64::try_from(revision).ok().filter(|revision| *revision > 0 && revision >> 48 == 0);
    let revision = fits.ok_or_else(|| {
        let message = format!("the server's revision {revision} does not fit 48 bits of a token");
        Error::new(ErrorKind::Unavailable, "fence", message)
    })?;
    Ok(FencingToken::new(u64::from(epoch) << 48 | revision))
}

#[cfg(test)]
mod tests {
    use super::token;

    #[test]
    fn later_revisions_and_epochs_are_greater() {
        let of = |revision, epoch| token(revision, epoch).expect("fits").get();
        assert_eq!(of(740, 0), 740);
        assert!(of(741, 0) > of(740, 0));
        assert!(of(1, 1) > of((1 << 48) - 1, 0));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        for revision in [0, -1, 1 << 48] {
            assert!(token(revision, 0).is_err(), "{revision}");
        }
    }
}
