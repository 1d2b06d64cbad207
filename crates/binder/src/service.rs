//! What a service implements: an object of one of the two stacks, and what it is told of each call.

use std::fmt;
use std::sync::Arc;

use crate::hwbinder::{HwParcel, HwReader};
use crate::parcel::{Parcel, ParcelReader};
use crate::{Binder, Stack, Status};

/// Who calls what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The method, in the interface's own numbering.
    pub code: u32,
    /// True when the caller waits for no reply; what is written to it is then thrown away.
    pub oneway: bool,
    /// The caller's process id; 0 when it waits for no reply.
    pub sender_pid: i32,
    /// The caller's effective user id.
    pub sender_euid: u32,
    /// True when the caller had the driver clear the call's buffers
    /// ([`CallFlags::CLEAR_BUFFERS`](crate::CallFlags)); the reply's are cleared too.
    pub clear_buffers: bool,
}

/// An object of the binder stack that other processes call.
pub trait Stub: Send + Sync {
    /// The name of its interface, which callers can ask for.
    #[must_use]
    fn descriptor(&self) -> &str;

    /// Serves one call, on a looper thread. The reply begins with a status header
    /// ([`Parcel::write_no_exception`](crate::Parcel::write_no_exception)) where the interface has
    /// one.
    ///
    /// # Errors
    /// What the caller gets instead of the reply.
    fn on_transact(&self, call: &Call, data: &mut ParcelReader<'_>, reply: &mut Parcel)
    -> Result<(), Status>;

    /// What it says of its state, for a person.
    fn dump(&self, _arguments: &[String]) -> String {
        String::new()
    }

    /// An object that extends this one with methods of another interface (`IBinder::getExtension`).
    fn extension(&self) -> Option<Binder> {
        None
    }
}

/// An object of the hwbinder stack that other processes call.
pub trait HwStub: Send + Sync {
    /// The fully qualified name of its interface, which callers can ask for.
    #[must_use]
    fn descriptor(&self) -> &str;

    /// Serves one call, on a looper thread. The reply may name memory of the object and of the
    /// request: the driver copies it from there. It begins with a status word
    /// ([`HwParcel::write_no_exception`](crate::HwParcel::write_no_exception)).
    ///
    /// # Errors
    /// What the caller gets instead of the reply.
    fn on_transact<'a>(
        &'a self,
        call: &Call,
        data: &mut HwReader<'a>,
        reply: &mut HwParcel<'a>,
    ) -> Result<(), Status>;

    /// What it says of its state, for a person.
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

    /// The stack that it belongs to.
    #[must_use]
    pub fn stack(&self) -> Stack {
        match self {
            Self::Binder(_) => Stack::Binder,
            Self::Hwbinder(_) => Stack::Hwbinder,
        }
    }

    /// The name of its interface.
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
