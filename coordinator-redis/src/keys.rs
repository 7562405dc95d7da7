use coordinator_core::{DigestKey, Scope};
use sha2::{Digest, Sha256};

/// The keys and channels of one deployment; all of them in one hash slot, so that a cluster keeps them on one node.
#[derive(Clone, Debug)]
pub(crate) struct Keyspace {
    prefix: String,
}

impl Keyspace {
    /// Instances that share the namespace and the digest key share their keys, and no others do.
    pub(crate) fn new(namespace: &str, digest_key: Option<&DigestKey>) -> Self {
        let keyed = digest_key.map(|key| key.mac(b"coordinator fingerprint"));
        let mut digest = Sha256::new();
        digest.update((namespace.len() as u64).to_be_bytes());
        digest.update(namespace.as_bytes());
        digest.update(keyed.unwrap_or_default());
        Self { prefix: format!("coordinator:{{{}}}:", hex::encode(&digest.finalize()[..8])) }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The scripts take the prefix and the session's name from it: `i:` and 16 characters at its end.
    pub(crate) fn session(&self, id: &str) -> String {
        format!("{}i:{id}", self.prefix)
    }

    /// A scope's digest is the last 64 characters.
    pub(crate) fn scope(&self, scope: &Scope) -> String {
        let mut key = String::with_capacity(self.prefix.len() + 66);
        key.push_str(&self.prefix);
        key.push_str("s:");
        key.push_str(&hex::encode(scope.digest()));
        key
    }

    pub(crate) fn fence(&self) -> String {
        format!("{}fence", self.prefix)
    }

    /// The channel on which a session hears that it may have got a scope.
    pub(crate) fn wakes(&self, id: &str) -> String {
        format!("{}w:{id}", self.prefix)
    }

    /// The channel on which all instances hear whose holders are to give up.
    pub(crate) fn revocations(&self) -> String {
        format!("{}revoke", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_and_digest_keys_have_keys_of_their_own() {
        let secret = DigestKey::new(&[7; 32]).expect("long enough");
        let all = [
            Keyspace::new("", None),
            Keyspace::new("eu", None),
            Keyspace::new("", Some(&secret)),
            Keyspace::new("eu", Some(&secret)),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().map(Keyspace::prefix).collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn every_key_is_in_one_slot_and_none_tells_a_name() {
        let (keys, scope) = (Keyspace::new("tenants", None), Scope::new("subject-42").expect("valid"));
        let tag = &keys.prefix()["coordinator:".len()..keys.prefix().len() - 1];
        for key in [keys.session("0123456789abcdef"), keys.scope(&scope), keys.fence()] {
            assert!(key.contains(tag) && key.matches('{').count() == 1, "{key}");
            assert!(!key.contains("subject") && !key.contains("tenants"), "{key}");
        }
    }
}
