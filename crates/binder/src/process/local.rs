//! [`Local`]: an object of this process that others call, whatever serves it.

use std::fmt;
use std::sync::Arc;

use binder_driver::uapi::{FlatBinderObject, TransactionData};

use super::Process;
use crate::nodes::{self, Node};
use crate::thread::ThreadState;
use crate::{Error, Stability};

/// What can be published: it serves the calls that the driver hands over.
pub(crate) trait Object: fmt::Debug + Send + Sync {
    /// Serves one call on this thread, and queues its answer.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver is out of order.
    fn serve(
        &self,
        process: &Arc<Process>,
        thread: &ThreadState,
        data: &TransactionData,
    ) -> Result<(), Error>;
}

/// A process's published objects.
pub(crate) type Nodes = nodes::Nodes<Box<dyn Object>>;

/// A published object. It can be called as long as a clone of this, or another process's reference,
/// is left.
#[derive(Clone, Debug)]
pub struct Local(pub(crate) Arc<Node<Box<dyn Object>>>);

impl Local {
    pub(crate) fn to_object(&self) -> FlatBinderObject {
        self.0.to_object()
    }

    pub(crate) fn stability(&self) -> Stability {
        self.0.stability()
    }

    /// True for two clones of one.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
