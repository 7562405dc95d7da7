use coordinator_core::{Error, ErrorKind};
use rustls::RootCertStore;
use rustls::client::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use std::path::Path;
use std::sync::Arc;

/// A client configuration that checks the server's certificate and name; the roots are a PEM file or the platform's.
pub(crate) fn client_config(roots: Option<&Path>) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(ErrorKind::Invalid, "connect", format!("TLS can't be set up: {error}")))?;
    Ok(builder.with_root_certificates(root_store(roots)?).with_no_client_auth())
}

fn root_store(file: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    let certificates = match file {
        Some(file) => CertificateDer::pem_file_iter(file).and_then(Iterator::collect).map_err(|error| {
            let message = format!("the trusted roots {} can't be read as PEM certificates", file.display());
            Error::with_source(ErrorKind::Invalid, "connect", message, error)
        })?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    store.add_parsable_certificates(certificates);
    if store.is_empty() {
        let message = "there is no trusted root certificate: name some by trusted_roots, or install the platform's";
        return Err(Error::new(ErrorKind::Invalid, "connect", message));
    }
    Ok(store)
}
