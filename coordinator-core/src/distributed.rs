use crate::ErasureCoordinator;
use std::{ops::Deref, sync::Arc};

/// A promise of the type: [`is_distributed`](ErasureCoordinator::is_distributed) is `true`.
pub trait DistributedCoordinator: ErasureCoordinator {}

/// Proof that a coordinator spans instances: what a plane beside a shared store takes.
///
/// A plane takes `impl Into<Distributed>`. An `Arc` of a type that promises [`DistributedCoordinator`] converts by
/// itself, an `Arc` of any other type does not compile, and an `Arc<dyn ErasureCoordinator>` is asked when the plane
/// is built:
///
/// ```
/// use coordinator_core::{Distributed, ErasureCoordinator, NotDistributed};
/// use std::sync::Arc;
///
/// struct Plane(Distributed);
///
/// impl Plane {
///     fn new(coordinator: impl Into<Distributed>) -> Self {
///         Self(coordinator.into())
///     }
/// }
///
/// fn from_configuration(coordinator: Arc<dyn ErasureCoordinator>) -> Result<Plane, NotDistributed> {
///     Ok(Plane::new(Distributed::new(coordinator)?))
/// }
/// ```
///
/// Without the question it does not compile:
///
/// ```compile_fail,E0277
/// # use coordinator_core::{Distributed, ErasureCoordinator};
/// # use std::sync::Arc;
/// # struct Plane(Distributed);
/// # impl Plane {
/// #     fn new(coordinator: impl Into<Distributed>) -> Self {
/// #         Self(coordinator.into())
/// #     }
/// # }
/// fn from_configuration(coordinator: Arc<dyn ErasureCoordinator>) -> Plane {
///     Plane::new(coordinator)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Distributed(Arc<dyn ErasureCoordinator>);

impl Distributed {
    /// The proof, if the coordinator spans instances.
    ///
    /// # Errors
    /// [`NotDistributed`], naming the coordinator.
    pub fn new(coordinator: Arc<dyn ErasureCoordinator>) -> Result<Self, NotDistributed> {
        if coordinator.is_distributed() {
            return Ok(Self(coordinator));
        }
        Err(NotDistributed { coordinator: format!("{coordinator:?}") })
    }

    /// The coordinator, to be shared with who does not ask for the proof.
    pub fn into_inner(self) -> Arc<dyn ErasureCoordinator> {
        self.0
    }
}

impl<C: DistributedCoordinator + 'static> From<Arc<C>> for Distributed {
    fn from(coordinator: Arc<C>) -> Self {
        Self(coordinator)
    }
}

impl TryFrom<Arc<dyn ErasureCoordinator>> for Distributed {
    type Error = NotDistributed;

    fn try_from(coordinator: Arc<dyn ErasureCoordinator>) -> Result<Self, NotDistributed> {
        Self::new(coordinator)
    }
}

impl Deref for Distributed {
    type Target = dyn ErasureCoordinator;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// A coordinator that excludes only callers of its own process or host was given to a plane beside a shared store.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{coordinator} does not exclude other instances: beside a shared store, configure a coordinator that spans them \
     (PostgreSQL, Redis, etcd)"
)]
pub struct NotDistributed {
    coordinator: String,
}
