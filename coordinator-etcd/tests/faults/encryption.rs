//! TLS, with and without a certificate of the client's.

use crate::support::cluster::Cluster;
use crate::support::{Deployment, scope, soon, waiters, waits};
use coordinator_etcd::etcd_client::{Certificate, Identity, TlsOptions};
use coordinator_etcd::{ErrorKind, Mode};
use coordinator_testkit::{PATIENCE, unique, until, within};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// An authority, and what it has signed for the server and for a client; removed when dropped.
struct Certificates(PathBuf);

const SCRIPT: &str = r#"
cat >c.cnf <<END
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[leaf]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
END
key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
openssl req -x509 $key -keyout authority.key -out authority.crt -days 2 -config c.cnf -extensions authority -subj /CN=a
for name in server client; do
    openssl req -new $key -keyout $name.key -out $name.csr -config c.cnf -subj /CN=$name
    openssl x509 -req -in $name.csr -CA authority.crt -CAkey authority.key -CAcreateserial -days 2 \
        -extfile c.cnf -extensions leaf -out $name.crt
done
"#;

impl Certificates {
    fn make() -> Self {
        let directory = Path::new("/tmp").join(unique("coordinator-certificates"));
        fs::create_dir(&directory).expect("a directory");
        let output = Command::new("bash").args(["-euc", SCRIPT]).current_dir(&directory).output().expect("bash runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(directory)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).expect("made")
    }

    fn argument(&self, option: &str, name: &str) -> String {
        format!("--{option}={}", self.0.join(name).display())
    }

    fn trust(&self) -> TlsOptions {
        TlsOptions::new().ca_certificate(Certificate::from_pem(self.read("authority.crt")))
    }

    async fn cluster(&self, asks_clients: bool) -> Cluster {
        let mut arguments = vec![self.argument("cert-file", "server.crt"), self.argument("key-file", "server.key")];
        if asks_clients {
            arguments.push(self.argument("trusted-ca-file", "authority.crt"));
            arguments.push("--client-cert-auth=true".into());
        }
        Cluster::start_with(1, "https", &arguments).await
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn is_used(deployment: &Deployment, tls: &TlsOptions) {
    until(PATIENCE, "the server has started", async || {
        deployment.builder("x").tls(tls.clone()).connect().await.is_ok()
    })
    .await;
    let one = Arc::new(deployment.builder("one").tls(tls.clone()).connect().await.expect("connected"));
    let two = Arc::new(deployment.builder("two").tls(tls.clone()).connect().await.expect("connected"));
    let lease = soon(&one, &scope("s"), Mode::Exclusive).await;
    let waiting = waits(&two, scope("s"), Mode::Exclusive);
    waiters(&one, &scope("s"), 1).await;
    lease.release().await.expect("held to the end");
    drop(within(PATIENCE, "the waiter is served", waiting).await.expect("no panic"));
}

async fn is_not_reached(deployment: &Deployment, tls: Option<TlsOptions>) {
    let mut builder = deployment.builder("x").connect_timeout(Duration::from_secs(2));
    if let Some(tls) = tls {
        builder = builder.tls(tls);
    }
    assert_eq!(builder.connect().await.expect_err("refused").kind(), ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_reached_over_tls_if_its_authority_is_trusted() {
    let certificates = Certificates::make();
    let cluster = certificates.cluster(false).await;
    let deployment = Deployment::at(cluster.endpoints());
    is_used(&deployment, &certificates.trust()).await;
    is_not_reached(&deployment, None).await; // the platform's roots don't know it
    is_not_reached(&Deployment::at(cluster.endpoints().replace("https", "http")), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_for_a_certificate_is_shown_the_clients() {
    let certificates = Certificates::make();
    let cluster = certificates.cluster(true).await;
    let deployment = Deployment::at(cluster.endpoints());
    let own = Identity::from_pem(certificates.read("client.crt"), certificates.read("client.key"));
    is_used(&deployment, &certificates.trust().identity(own)).await;
    is_not_reached(&deployment, Some(certificates.trust())).await;
}
