use coordinator_core::{Error, ErrorKind, Mode, Scope};
use etcd_client::Compare;

/// Where this deployment's keys are; no part of a scope's name but its digest is in them.
#[derive(Clone, Debug)]
pub(crate) struct Keyspace {
    namespace: String,
}

impl Keyspace {
    /// # Errors
    /// `Invalid` for a namespace that etcd's users could not write down, or that would mix with another's keys.
    pub(crate) fn new(namespace: &str) -> Result<Self, Error> {
        let invalid = |why: &str| Err(Error::new(ErrorKind::Invalid, "connect", why));
        if namespace.is_empty() || namespace.len() > 128 || !namespace.bytes().all(|byte| byte.is_ascii_graphic()) {
            return invalid("a namespace has 1 to 128 printable ASCII characters, none of them a space");
        }
        if namespace.split('/').any(|part| part == "locks") {
            return invalid(
                "no part of a namespace is called `locks`: its keys could be taken for another namespace's",
            );
        }
        Ok(Self { namespace: namespace.to_owned() })
    }

    pub(crate) fn line(&self, scope: &Scope) -> Line {
        Line { directory: format!("{}/locks/{}/", self.namespace, hex::encode(scope.digest())) }
    }

    /// The key that lives as long as the instance's lease.
    pub(crate) fn session(&self, lease: i64) -> String {
        format!("{}/sessions/{lease:016x}", self.namespace)
    }

    /// Under which those stand that are asked to give up.
    pub(crate) fn revocations(&self) -> String {
        format!("{}/revocations/", self.namespace)
    }

    pub(crate) fn revocation(&self, scope: &Scope) -> String {
        self.revocations() + &hex::encode(scope.digest())
    }

    /// Whose revocation that key is.
    pub(crate) fn revoked(&self, key: &[u8]) -> Option<Scope> {
        key.strip_prefix(self.revocations().as_bytes()).and_then(read)
    }
}

/// One scope's line: each instance that holds the scope or waits for it has a key there, in the order of creation.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    directory: String,
}

impl Line {
    pub(crate) fn everybody(&self) -> &str {
        &self.directory
    }

    /// Who keeps a request of this mode waiting, if they stand before it: shared ones wait for exclusive ones only.
    pub(crate) fn in_the_way_of(&self, mode: Mode) -> String {
        match mode {
            Mode::Exclusive => self.directory.clone(),
            Mode::Shared => self.directory.clone() + letter(Mode::Exclusive),
        }
    }

    /// Holds if nobody is in the way: a key that does not exist was created in revision 0, and so was a range of none.
    pub(crate) fn is_open_to(&self, mode: Mode) -> Compare {
        Compare::create_revision(self.in_the_way_of(mode), etcd_client::CompareOp::Equal, 0).with_prefix()
    }

    /// A place that is never asked for twice.
    pub(crate) fn place(&self, mode: Mode, lease: i64, number: u64) -> String {
        format!("{}{}/{lease:016x}-{number:x}", self.directory, letter(mode))
    }

    /// The mode of a key that stands here.
    pub(crate) fn mode(&self, key: &[u8]) -> Option<Mode> {
        let rest = key.strip_prefix(self.directory.as_bytes())?;
        [Mode::Exclusive, Mode::Shared].into_iter().find(|mode| rest.starts_with(letter(*mode).as_bytes()))
    }
}

const fn letter(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "x",
        Mode::Shared => "s",
    }
}

/// `None` for what no instance wrote.
fn read(digest: &[u8]) -> Option<Scope> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(digest, &mut bytes).ok()?;
    Some(Scope::from_digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_mode_and_no_name() {
        let keyspace = Keyspace::new("app/eu").expect("valid");
        let line = keyspace.line(&Scope::new("abc").expect("valid"));
        let place = line.place(Mode::Shared, 255, 16);
        assert_eq!(
            place,
            "app/eu/locks/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad/s/00000000000000ff-10"
        );
        assert_eq!(line.mode(place.as_bytes()), Some(Mode::Shared));
        assert_eq!(line.mode(line.place(Mode::Exclusive, 1, 2).as_bytes()), Some(Mode::Exclusive));
        assert_eq!(line.mode(b"app/eu/locks/other"), None);
    }

    #[test]
    fn a_scope_is_read_as_it_was_written_and_nothing_else_is() {
        let (keyspace, scope) = (Keyspace::new("n").expect("valid"), Scope::new("abc").expect("valid"));
        let key = keyspace.revocation(&scope);
        assert_eq!(keyspace.revoked(key.as_bytes()), Some(scope));
        for other in [&key[1..], &key[..key.len() - 1], &format!("{key}0"), "n/revocations/", ""] {
            assert_eq!(keyspace.revoked(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn namespaces_that_could_mix_are_refused() {
        for bad in ["", "a b", "a/locks/b", "locks", "é", &"x".repeat(129)] {
            assert!(Keyspace::new(bad).is_err(), "{bad}");
        }
        for good in ["a", "/a/b", "coordinator", "unlocks"] {
            Keyspace::new(good).expect("valid");
        }
    }
}
