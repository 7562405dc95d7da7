use coordinator_core::{DigestKey, Scope};
use sha2::{Digest, Sha256};

/// The two advisory locks of a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keys {
    /// The real key: who holds it holds the scope.
    pub(crate) scope: i64,
    /// The turnstile: who waits for the real key holds it exclusive.
    pub(crate) turnstile: i64,
}

/// Which keys this deployment uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyspace {
    namespace: Option<String>,
}

impl Keyspace {
    pub(crate) fn new(namespace: Option<String>) -> Self {
        Self { namespace }
    }

    /// Without a namespace the real key is the number that a plain `SHA-256(name)` scheme locks, so that instances
    /// of such a scheme are excluded too.
    pub(crate) fn keys(&self, scope: &Scope) -> Keys {
        let real = match &self.namespace {
            None => scope.key().cast_signed(),
            Some(namespace) => {
                let length = (namespace.len() as u64).to_be_bytes();
                first_eight(&[&length, namespace.as_bytes(), scope.digest()])
            }
        };
        Keys { scope: real, turnstile: first_eight(&[b"coordinator turnstile", &real.to_be_bytes(), scope.digest()]) }
    }

    /// Eight hex digits that two instances share if their scopes have the same keys.
    pub(crate) fn fingerprint(&self, digest_key: Option<&DigestKey>) -> String {
        let keyed = digest_key.map(|key| key.mac(b"coordinator fingerprint"));
        let namespace = self.namespace.as_deref().map_or([0; 32], |name| Sha256::digest(name).into());
        format!("{:08x}", first_eight(&[&namespace, &keyed.unwrap_or_default()]).cast_unsigned() >> 32)
    }
}

fn first_eight(parts: &[&[u8]]) -> i64 {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    digest.finalize().first_chunk().map_or(0, |first| i64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_one_that_deployed_instances_lock() {
        let scope = Scope::new("abc").expect("valid");
        assert_eq!(Keyspace::default().keys(&scope).scope, 0xba78_16bf_8f01_cfea_u64.cast_signed());
    }

    #[test]
    fn namespaces_and_turnstiles_have_keys_of_their_own() {
        let scope = Scope::new("abc").expect("valid");
        let plain = Keyspace::default();
        let named = Keyspace::new(Some("eu".into()));
        let all = [plain.keys(&scope), named.keys(&scope)].map(|keys| [keys.scope, keys.turnstile]).concat();
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 4);
        assert_ne!(plain.fingerprint(None), named.fingerprint(None));
        let secret = DigestKey::new(&[7; 32]).expect("long enough");
        assert_ne!(plain.fingerprint(None), plain.fingerprint(Some(&secret)));
    }
}
