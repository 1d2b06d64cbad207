//! Local objects: what a service implements, with what options it is published, and the table in which the driver's
//! names for it are looked up.
//!
//! A node's `ptr` and `cookie` words travel through the driver and come back from other processes' calls. They are
//! numbers of a table, never addresses, so a wrong one is only not found. Nothing here talks to a driver.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use binder_driver::uapi::{
    BINDER_TYPE_BINDER, FLAT_BINDER_FLAG_ACCEPTS_FDS, FLAT_BINDER_FLAG_INHERIT_RT,
    FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT, FlatBinderObject,
};

use crate::hwbinder::{HwParcel, HwReader};
use crate::parcel::{Parcel, ParcelReader};
use crate::{Binder, Stability, Stack, Status};

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
    /// True when the caller had the driver clear the call's buffers ([`CallFlags::CLEAR_BUFFERS`](crate::CallFlags)); the
    /// reply's are cleared too.
    pub clear_buffers: bool,
}

/// An object of the binder stack that other processes call.
pub trait Stub: Send + Sync {
    /// The name of its interface, which callers can ask for.
    fn descriptor(&self) -> &str;

    /// Serves one call, on a looper thread. The reply begins with a status header
    /// ([`Parcel::write_no_exception`](crate::Parcel::write_no_exception)) where the interface has one.
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
    fn descriptor(&self) -> &str;

    /// Serves one call, on a looper thread. The reply may name memory of the object and of the request: the driver
    /// copies it from there. It begins with a status word
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

/// The least scheduling policy of a node's server threads; Android's kernels honour it, the mainline kernel does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeastPolicy {
    /// `SCHED_OTHER`: no more than anyone's.
    #[default]
    Other,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    RoundRobin,
}

/// How the driver treats calls to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// A real-time caller's policy and priority are lent to the server thread (Android's kernels).
    pub inherit_rt: bool,
    /// Calls may carry file descriptors.
    pub accept_fds: bool,
    /// The least policy of the server thread during a call.
    pub least_policy: LeastPolicy,
    /// With [`LeastPolicy::Other`]: the highest nice value that is lent, −20 to 19 (the mainline kernel takes a negative
    /// one for a number above 235). Otherwise the least real-time priority, 1 to 99.
    pub least_priority: i8,
    /// What its interface promises; only the binder stack's objects tell it.
    pub stability: Stability,
}

impl NodeOptions {
    /// What Android's binder library sends (0x113): any nice value is lent, so that a call from the background is served
    /// in the background; real-time priorities are not.
    pub const BINDER: Self = Self {
        inherit_rt: false,
        accept_fds: true,
        least_policy: LeastPolicy::Other,
        least_priority: 19,
        stability: Stability::System,
    };

    /// What Android's hwbinder library sends (0x900): real-time priorities are lent, and a nice value above 0 is not.
    pub const HWBINDER: Self = Self { inherit_rt: true, least_priority: 0, ..Self::BINDER };

    /// The same with or without real-time inheritance.
    #[must_use]
    pub const fn inherit_rt(self, inherit_rt: bool) -> Self {
        Self { inherit_rt, ..self }
    }

    /// The `FLAT_BINDER_FLAG_*` bits.
    #[must_use]
    pub fn flags(self) -> u32 {
        let policy = match self.least_policy {
            LeastPolicy::Other => 0,
            LeastPolicy::Fifo => 1,
            LeastPolicy::RoundRobin => 2,
        };
        u32::from(self.least_priority as u8)
            | policy << FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT
            | if self.accept_fds { FLAT_BINDER_FLAG_ACCEPTS_FDS } else { 0 }
            | if self.inherit_rt { FLAT_BINDER_FLAG_INHERIT_RT } else { 0 }
    }
}

impl From<Stack> for NodeOptions {
    fn from(stack: Stack) -> Self {
        match stack {
            Stack::Binder => Self::BINDER,
            Stack::Hwbinder => Self::HWBINDER,
        }
    }
}

/// A published object. It can be called as long as a clone of this, or another process's reference, is left.
#[derive(Clone, Debug)]
pub struct Local(Arc<Node>);

impl Local {
    /// The object itself.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.0.service
    }

    pub(crate) fn to_object(&self) -> FlatBinderObject {
        let name = self.0.name;
        FlatBinderObject { kind: BINDER_TYPE_BINDER, flags: self.0.flags, binder: name, cookie: name }
    }

    pub(crate) fn stability(&self) -> Stability {
        self.0.stability
    }

    /// True for two clones of one.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[derive(Debug)]
struct Node {
    /// Both the `ptr` and the `cookie` that the driver knows.
    name: u64,
    flags: u32,
    stability: Stability,
    service: Service,
    nodes: Weak<Nodes>,
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(nodes) = self.nodes.upgrade() {
            nodes.forget(self.name);
        }
    }
}

/// A process's published objects.
#[derive(Debug)]
pub(crate) struct Nodes(RwLock<Slots>);

/// A node's name is its slot in the lower and a generation in the upper 32 bits: a slot is used again, a name never is,
/// because the driver may remember a name for as long as another process holds a weak reference.
#[derive(Debug)]
struct Slots {
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    generation: u32,
}

#[derive(Debug)]
struct Entry {
    name: u64,
    node: Weak<Node>,
    /// `BR_ACQUIRE`s less `BR_RELEASE`s. Two threads may handle one of each in the wrong order.
    references: i32,
    /// Keeps the node while the driver holds references.
    held: Option<Arc<Node>>,
}

/// The context manager's name, which the driver chose.
const CONTEXT_MANAGER: u64 = 0;

fn slot_of(name: u64) -> usize {
    name as u32 as usize
}

impl Nodes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(RwLock::new(Slots { slots: vec![None], free: Vec::new(), generation: 0 })))
    }

    /// Publishes an object under a new name.
    pub(crate) fn publish(self: &Arc<Self>, service: Service, options: NodeOptions) -> Local {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let slot = table.free.pop().unwrap_or_else(|| {
            table.slots.push(None);
            table.slots.len() as u32 - 1
        });
        table.generation = table.generation.wrapping_add(1);
        let name = u64::from(table.generation) << 32 | u64::from(slot);
        self.insert(&mut table, name, service, options)
    }

    /// Publishes the object that calls to handle 0 arrive at.
    pub(crate) fn publish_context_manager(self: &Arc<Self>, service: Service, options: NodeOptions) -> Local {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        self.insert(&mut table, CONTEXT_MANAGER, service, options)
    }

    fn insert(
        self: &Arc<Self>,
        table: &mut Slots,
        name: u64,
        service: Service,
        options: NodeOptions,
    ) -> Local {
        let node = Arc::new(Node {
            name,
            flags: options.flags(),
            stability: options.stability,
            service,
            nodes: Arc::downgrade(self),
        });
        table.slots[slot_of(name)] =
            Some(Entry { name, node: Arc::downgrade(&node), references: 0, held: None });
        Local(node)
    }

    /// The object with this name.
    pub(crate) fn find(&self, ptr: u64, cookie: u64) -> Option<Local> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = table.slots.get(slot_of(ptr))?.as_ref()?;
        (entry.name == ptr && ptr == cookie).then(|| entry.node.upgrade())?.map(Local)
    }

    /// The driver holds one reference more (`BR_ACQUIRE`) or less (`BR_RELEASE`).
    pub(crate) fn count(&self, ptr: u64, change: i32) {
        let released;
        {
            let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
            let Some(Some(entry)) = table.slots.get_mut(slot_of(ptr)) else { return };
            if entry.name != ptr {
                return;
            }
            entry.references += change;
            let held = if entry.references > 0 { entry.node.upgrade() } else { None };
            released = std::mem::replace(&mut entry.held, held);
        }
        drop(released); // outside the lock: it may have been the last
    }

    /// Lets go of what is kept for others.
    pub(crate) fn release_all(&self) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let held: Vec<_> = table.slots.iter_mut().flatten().filter_map(|entry| entry.held.take()).collect();
        drop(table);
        drop(held);
    }

    fn forget(&self, name: u64) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let slot = slot_of(name);
        if table.slots[slot].as_ref().is_some_and(|entry| entry.name == name) {
            table.slots[slot] = None;
            if name != CONTEXT_MANAGER {
                table.free.push(slot as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;
    impl Stub for Nothing {
        fn descriptor(&self) -> &str {
            "nothing"
        }
        fn on_transact(&self, _: &Call, _: &mut ParcelReader<'_>, _: &mut Parcel) -> Result<(), Status> {
            Ok(())
        }
    }

    fn publish(nodes: &Arc<Nodes>) -> (Local, u64) {
        let local = nodes.publish(Service::binder(Nothing), NodeOptions::BINDER);
        let name = local.to_object().binder;
        (local, name)
    }

    #[test]
    fn each_stack_sends_the_flags_that_androids_library_sends() {
        assert_eq!(NodeOptions::BINDER.flags(), 0x113);
        assert_eq!(NodeOptions::HWBINDER.flags(), 0x900);
        let floor =
            NodeOptions { least_policy: LeastPolicy::Fifo, least_priority: 50, ..NodeOptions::BINDER };
        assert_eq!(floor.flags(), 0x332);
        assert_eq!(NodeOptions { least_priority: -1, ..NodeOptions::BINDER }.flags(), 0x1ff);
    }

    #[test]
    fn a_node_lives_while_the_driver_holds_a_reference() {
        let nodes = Nodes::new();
        let (local, name) = publish(&nodes);
        nodes.count(name, 1);
        drop(local);
        assert!(nodes.find(name, name).is_some());
        nodes.count(name, -1);
        assert!(nodes.find(name, name).is_none());
    }

    #[test]
    fn references_counted_in_the_wrong_order_keep_the_node() {
        let nodes = Nodes::new();
        let (local, name) = publish(&nodes);
        for change in [1, 1, -1] {
            nodes.count(name, change);
        }
        drop(local);
        assert!(nodes.find(name, name).is_some());
    }

    #[test]
    fn a_name_is_never_used_again() {
        let nodes = Nodes::new();
        let (local, first) = publish(&nodes);
        drop(local);
        let (_local, second) = publish(&nodes);
        assert_eq!(slot_of(first), slot_of(second));
        assert_ne!(first, second);
        assert!(nodes.find(first, first).is_none());
        assert!(nodes.find(second, first).is_none());
    }
}
