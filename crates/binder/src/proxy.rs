//! Remote objects: one [`Proxy`] for each handle that this process holds, and the calls that are made through it.

use std::sync::{Arc, Mutex, PoisonError};

use binder_driver::Command;
use binder_driver::uapi::{BINDER_TYPE_HANDLE, FlatBinderObject, TF_CLEAR_BUF};

use crate::death::Death;
use crate::frozen::Frozen;
use crate::hwbinder::HwParcel;
use crate::node::Local;
use crate::outgoing::Outgoing;
use crate::parcel::Parcel;
use crate::thread::{Reply, ThreadState};
use crate::{Error, Process, Stability};

/// The handle at which every process finds its context's manager.
pub(crate) const CONTEXT_MANAGER: u32 = 0;

/// An object: one of this process, or another's.
#[derive(Clone, Debug)]
pub enum Binder {
    /// Published by this process.
    Local(Local),
    /// Another process's.
    Remote(Proxy),
}

impl Binder {
    pub(crate) fn to_object(&self) -> FlatBinderObject {
        match self {
            Self::Local(local) => local.to_object(),
            Self::Remote(proxy) => FlatBinderObject {
                kind: BINDER_TYPE_HANDLE,
                binder: proxy.handle().into(),
                ..Default::default()
            },
        }
    }

    pub(crate) fn stability(&self) -> Stability {
        match self {
            Self::Local(local) => local.stability(),
            Self::Remote(proxy) => proxy.stability(),
        }
    }

    /// The proxy, when it is another process's object.
    #[must_use]
    pub fn remote(&self) -> Option<&Proxy> {
        match self {
            Self::Remote(proxy) => Some(proxy),
            Self::Local(_) => None,
        }
    }

    /// True when both name the same object.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local(one), Self::Local(other)) => one.same(other),
            (Self::Remote(one), Self::Remote(other)) => Arc::ptr_eq(&one.0, &other.0),
            _ => false,
        }
    }
}

/// How the driver is to treat one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallFlags(u32);

impl CallFlags {
    /// The driver overwrites the buffers of the call and of its reply with zeros when they are given back (`FLAG_CLEAR_BUF`):
    /// for passwords and keys.
    pub const CLEAR_BUFFERS: Self = Self(TF_CLEAR_BUF);
}

/// Another process's object, by this process's handle for it. Clones share one handle; the last one gives it back.
#[derive(Clone, Debug)]
pub struct Proxy(pub(crate) Arc<Handle>);

#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) process: Arc<Process>,
    pub(crate) handle: u32,
    stability: Stability,
    pub(crate) death: Mutex<Death>,
    pub(crate) frozen: Mutex<Frozen>,
}

impl Proxy {
    /// This process's handle for the object.
    #[must_use]
    pub fn handle(&self) -> u32 {
        self.0.handle
    }

    /// What the object's interface promises, as its owner said when it was received.
    #[must_use]
    pub fn stability(&self) -> Stability {
        self.0.stability
    }

    /// The process that calls are made from.
    #[must_use]
    pub fn process(&self) -> &Arc<Process> {
        &self.0.process
    }

    /// Calls a method and waits for its reply. While it waits, this thread serves calls that come back to it.
    ///
    /// # Errors
    /// [`Error::DeadObject`], [`Error::Failed`], [`Error::Frozen`] as the driver says; [`Error::Status`] when the service
    /// could not serve the call; [`Error::Driver`] when the driver is out of order.
    pub fn transact(&self, code: u32, data: &Parcel) -> Result<Reply<'_>, Error> {
        self.transact_with(code, data, CallFlags::default())
    }

    /// As [`Proxy::transact`], with flags for the driver.
    ///
    /// # Errors
    /// As [`Proxy::transact`].
    pub fn transact_with(&self, code: u32, data: &Parcel, flags: CallFlags) -> Result<Reply<'_>, Error> {
        data.check_dialect(self.0.process.dialect())?;
        let thread = ThreadState::current(&self.0.process);
        thread.count_copies(data.take_copied());
        let memory = [data.data(), data.offsets()];
        let outgoing = Outgoing::plain(&memory).with_flags(flags.0);
        thread.transact(&self.0.process, self.handle(), code, &outgoing)
    }

    /// Calls a method and returns when the driver has taken the call; calls to one object arrive in their order.
    ///
    /// # Errors
    /// As [`Proxy::transact`], as far as the driver can say at once.
    pub fn transact_oneway(&self, code: u32, data: &Parcel) -> Result<(), Error> {
        self.transact_oneway_with(code, data, CallFlags::default())
    }

    /// As [`Proxy::transact_oneway`], with flags for the driver.
    ///
    /// # Errors
    /// As [`Proxy::transact_oneway`].
    pub fn transact_oneway_with(&self, code: u32, data: &Parcel, flags: CallFlags) -> Result<(), Error> {
        data.check_dialect(self.0.process.dialect())?;
        let thread = ThreadState::current(&self.0.process);
        thread.count_copies(data.take_copied());
        let memory = [data.data(), data.offsets()];
        let outgoing = Outgoing::plain(&memory).with_flags(flags.0);
        thread.transact_oneway(&self.0.process, self.handle(), code, &outgoing)
    }

    /// As [`Proxy::transact`], with a parcel of this thread's that is used again and again: `fill` writes it.
    ///
    /// # Errors
    /// As [`Proxy::transact`]; what `fill` returns.
    pub fn call(
        &self,
        code: u32,
        fill: impl FnOnce(&mut Parcel) -> Result<(), Error>,
    ) -> Result<Reply<'_>, Error> {
        let thread = ThreadState::current(&self.0.process);
        let mut parcel = thread.take_parcel();
        let result = fill(&mut parcel).and_then(|()| {
            thread.count_copies(parcel.take_copied());
            let memory = [parcel.data(), parcel.offsets()];
            thread.transact(&self.0.process, self.handle(), code, &Outgoing::plain(&memory))
        });
        thread.give_parcel(parcel);
        result
    }

    /// As [`Proxy::call`], with scatter-gather buffers: `fill` names memory, and the driver copies from there.
    ///
    /// # Errors
    /// As [`Proxy::call`].
    pub fn call_hw<'a>(
        &self,
        code: u32,
        fill: impl FnOnce(&mut HwParcel<'a>) -> Result<(), Error>,
    ) -> Result<Reply<'_>, Error> {
        let thread = ThreadState::current(&self.0.process);
        let mut parcel = HwParcel::from_store(thread.take_store());
        let result = fill(&mut parcel).and_then(|()| {
            thread.count_copies(parcel.take_copied());
            parcel.send(|outgoing| thread.transact(&self.0.process, self.handle(), code, outgoing))
        });
        thread.give_store(parcel.into_store());
        result
    }

    /// As [`Proxy::call_hw`], without waiting for a reply.
    ///
    /// # Errors
    /// As [`Proxy::transact_oneway`]; what `fill` returns.
    pub fn call_hw_oneway<'a>(
        &self,
        code: u32,
        fill: impl FnOnce(&mut HwParcel<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let thread = ThreadState::current(&self.0.process);
        let mut parcel = HwParcel::from_store(thread.take_store());
        let result = fill(&mut parcel).and_then(|()| {
            thread.count_copies(parcel.take_copied());
            parcel.send(|outgoing| thread.transact_oneway(&self.0.process, self.handle(), code, outgoing))
        });
        thread.give_store(parcel.into_store());
        result
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.process.proxies().forget(self.handle);
        let thread = ThreadState::current(&self.process);
        let asked = self.death.get_mut().unwrap_or_else(PoisonError::into_inner).cookie();
        if let Some(cookie) = asked {
            self.process.proxies().unask(cookie);
            thread.clear_death(self.handle, cookie);
        }
        let asked = self.frozen.get_mut().unwrap_or_else(PoisonError::into_inner).cookie();
        if let Some(cookie) = asked {
            self.process.proxies().unask(cookie);
            thread.clear_frozen(self.handle, cookie);
        }
        // Handle 0 is there without a reference; only who asks for its death holds one.
        if self.handle != CONTEXT_MANAGER {
            thread.push(Command::Release(self.handle));
            thread.push(Command::Decrefs(self.handle));
        }
        thread.flush_unless_soon(&self.process);
    }
}

impl Process {
    /// The manager of this process's context; whether there is one shows when it is called.
    #[must_use]
    pub fn context_manager(self: &Arc<Self>) -> Proxy {
        self.proxy_for(CONTEXT_MANAGER, Stability::System)
    }

    /// The proxy for a handle that the driver gave to this process, in a buffer that this thread holds.
    pub(crate) fn proxy_for(self: &Arc<Self>, handle: u32, stability: Stability) -> Proxy {
        let (proxy, new) = self.proxies().find_or_insert(handle, || {
            let (death, frozen) = (Mutex::default(), Mutex::default());
            Arc::new(Handle { process: self.clone(), handle, stability, death, frozen })
        });
        // Handle 0 is always there and needs no reference. The buffer keeps any other alive until this thread gives it back: its
        // commands go out in order, so these come first.
        if new && handle != CONTEXT_MANAGER {
            let thread = ThreadState::current(self);
            thread.push(Command::Increfs(handle));
            thread.push(Command::Acquire(handle));
            // Another thread may give up its clone, and the references with it, before these are taken: the proxy lives until
            // they are.
            thread.keep_until_sent(&proxy);
            thread.flush_unless_soon(self);
        }
        proxy
    }
}
