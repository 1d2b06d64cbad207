//! [`Local`]: an object that this process publishes.

use std::fmt;
use std::sync::Arc;

use roundtrip_binder_driver::uapi::{FlatBinderObject, TransactionData};

use super::Process;
use crate::nodes::{self, Node};
use crate::thread::ThreadState;
use crate::{Error, Stability};

/// An object that can be published, and serves incoming calls.
pub(crate) trait Object: fmt::Debug + Send + Sync {
    /// Serves one call on this thread and queues its reply.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver fails.
    fn serve(
        &self,
        process: &Arc<Process>,
        thread: &ThreadState,
        data: &TransactionData,
    ) -> Result<(), Error>;
}

/// A process's published objects.
pub(crate) type Nodes = nodes::Nodes<Box<dyn Object>>;

/// A published object. It can be called while a clone of this value exists or another process holds
/// a reference.
#[derive(Clone, Debug)]
pub struct Local(pub(crate) Arc<Node<Box<dyn Object>>>);

impl Local {
    pub(crate) fn to_object(&self) -> FlatBinderObject {
        self.0.to_object()
    }

    pub(crate) fn stability(&self) -> Stability {
        self.0.stability()
    }

    /// Returns true if both are clones of one object.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
