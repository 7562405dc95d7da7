use crate::servers::Refused;
use coordinator_core::{Error, ErrorKind};
use etcd_client::Client;

/// What a server has to say of itself before it is used.
pub(crate) struct Health {
    pub(crate) cluster: u64,
}

/// # Errors
/// `Unfit` for a server before 3.4; `Failed` for one that does not answer.
pub(crate) async fn look(client: &Client, endpoint: &str) -> Result<Health, Refused> {
    let status = client.maintenance_client().status().await.map_err(Refused::Failed)?;
    if !is_new_enough(status.version()) {
        let message = format!("{endpoint} runs etcd {}: 3.4 or newer is needed", status.version());
        return Err(Refused::Unfit(Error::new(ErrorKind::Invalid, "connect", message)));
    }
    if status.leader() == 0 || !status.errors().is_empty() {
        tracing::warn!(endpoint, errors = ?status.errors(), "a server of the cluster has trouble, or knows no leader");
    }
    Ok(Health { cluster: status.header().map_or(0, etcd_client::ResponseHeader::cluster_id) })
}

fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (3, 4)
}

#[cfg(test)]
mod tests {
    use super::is_new_enough;

    #[test]
    fn servers_before_3_4_are_too_old() {
        for (version, fits) in [("3.4.23", true), ("3.4.0-rc.1", true), ("3.6.1", true), ("4.0.0", true)] {
            assert_eq!(is_new_enough(version), fits, "{version}");
        }
        for version in ["3.3.27", "2.3.8", "", "x"] {
            assert!(!is_new_enough(version), "{version}");
        }
    }
}
