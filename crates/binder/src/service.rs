//! The traits that a service of either stack implements, and the description of a call.

use std::fmt;
use std::sync::Arc;

use crate::hwbinder::{HwParcel, HwReader};
use crate::parcel::{Parcel, ParcelReader};
use crate::{Binder, Stack, Status};

/// A call, as its service sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The code of the method, defined by the interface.
    pub code: u32,
    /// True if the caller waits for no reply. The reply is then discarded.
    pub oneway: bool,
    /// The caller's process id; 0 for a oneway call.
    pub sender_pid: i32,
    /// The caller's effective user id.
    pub sender_euid: u32,
    /// True if the caller asked the driver to zero the buffers
    /// ([`CallFlags::CLEAR_BUFFERS`](crate::CallFlags)). This applies to the reply too.
    pub clear_buffers: bool,
}

/// An object of the binder stack that other processes call.
pub trait Stub: Send + Sync {
    /// The name of the object's interface, which callers can query.
    #[must_use]
    fn descriptor(&self) -> &str;

    /// Serves one call on a looper thread. The reply must begin with a status header
    /// ([`Parcel::write_no_exception`](crate::Parcel::write_no_exception)) if the interface uses
    /// one.
    ///
    /// # Errors
    /// The status that the caller gets instead of the reply.
    fn on_transact(&self, call: &Call, data: &mut ParcelReader<'_>, reply: &mut Parcel)
    -> Result<(), Status>;

    /// A human-readable description of the object's state.
    fn dump(&self, _arguments: &[String]) -> String {
        String::new()
    }

    /// The object's extension: an object with methods of another interface
    /// (`IBinder::getExtension`).
    fn extension(&self) -> Option<Binder> {
        None
    }
}

/// An object of the hwbinder stack that other processes call.
pub trait HwStub: Send + Sync {
    /// The fully qualified name of the object's interface, which callers can query.
    #[must_use]
    fn descriptor(&self) -> &str;

    /// Serves one call on a looper thread. The reply may list memory of the object and of the
    /// request, from which the driver copies. It must begin with a status word
    /// ([`HwParcel::write_no_exception`](crate::HwParcel::write_no_exception)).
    ///
    /// # Errors
    /// The status that the caller gets instead of the reply.
    fn on_transact<'a>(
        &'a self,
        call: &Call,
        data: &mut HwReader<'a>,
        reply: &mut HwParcel<'a>,
    ) -> Result<(), Status>;

    /// A human-readable description of the object's state.
    fn dump(&self, _arguments: &[String]) -> String {
        String::new()
    }
}

/// An object of either stack.
#[derive(Clone)]
pub enum Service {
    /// Served through parcels.
    Binder(Arc<dyn Stub>),
    /// Served through scatter-gather parcels.
    Hwbinder(Arc<dyn HwStub>),
}

impl Service {
    /// An object of the binder stack.
    pub fn binder(stub: impl Stub + 'static) -> Self {
        Self::Binder(Arc::new(stub))
    }

    /// An object of the hwbinder stack.
    pub fn hwbinder(stub: impl HwStub + 'static) -> Self {
        Self::Hwbinder(Arc::new(stub))
    }

    /// The object's stack.
    #[must_use]
    pub fn stack(&self) -> Stack {
        match self {
            Self::Binder(_) => Stack::Binder,
            Self::Hwbinder(_) => Stack::Hwbinder,
        }
    }

    /// The name of the object's interface.
    #[must_use]
    pub fn descriptor(&self) -> &str {
        match self {
            Self::Binder(stub) => stub.descriptor(),
            Self::Hwbinder(stub) => stub.descriptor(),
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.stack(), self.descriptor())
    }
}
