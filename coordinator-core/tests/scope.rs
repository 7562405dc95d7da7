//! The promises of `Scope`.

use coordinator_core::{DigestKey, ErrorKind, Scope};

#[test]
fn names_at_the_edges_are_taken_or_refused_with_the_reason() {
    assert!(Scope::new("a").is_ok());
    assert!(Scope::new("é".repeat(256)).is_ok());
    for (name, why) in
        [("", "at least one byte"), (&"x".repeat(513), "at most 512"), ("a\nb", "at byte 1"), ("\u{85}", "control")]
    {
        let error = Scope::new(name).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn the_key_is_the_first_eight_bytes_of_sha_256() {
    // SHA-256("abc") = ba7816bf 8f01cfea …
    let scope = Scope::new("abc").expect("valid");
    assert_eq!(scope.key(), 0xba78_16bf_8f01_cfea);
    assert_eq!(scope.to_string(), "ba7816bf8f01");
}

#[test]
fn a_key_changes_the_digest_and_never_shows() {
    let key = DigestKey::new(b"sixteen bytes or more").expect("long enough");
    let scope = Scope::new("abc").expect("valid");
    assert_ne!(scope.keyed(&key), scope);
    assert_eq!(scope.keyed(&key), scope.keyed(&key.clone()));
    assert_eq!(format!("{key:?}"), "DigestKey");
    assert!(DigestKey::new(b"short").is_err());
}
