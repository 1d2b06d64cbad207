//! Remote objects: one [`Proxy`] for each handle that this process holds, and the calls that are made through it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use binder_driver::Command;
use binder_driver::uapi::{BINDER_TYPE_HANDLE, FlatBinderObject, HandleCookie};

use crate::hwbinder::HwParcel;
use crate::node::Local;
use crate::parcel::Parcel;
use crate::thread::{Outgoing, Reply, ThreadState};
use crate::{Error, Process};

/// The handle at which every process finds its context's manager.
const CONTEXT_MANAGER: u32 = 0;

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

/// Another process's object, by this process's handle for it. Clones share one handle; the last one gives it back.
#[derive(Clone, Debug)]
pub struct Proxy(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    process: Arc<Process>,
    handle: u32,
    death: Mutex<Death>,
}

type Recipient = Box<dyn FnOnce() + Send>;

#[derive(Default)]
enum Death {
    #[default]
    NotAsked,
    /// The driver was asked to tell, under this cookie.
    Asked(u64, Vec<Recipient>),
    Happened,
}

impl std::fmt::Debug for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotAsked => "not asked",
            Self::Asked(..) => "asked",
            Self::Happened => "happened",
        })
    }
}

impl Proxy {
    /// This process's handle for the object.
    #[must_use]
    pub fn handle(&self) -> u32 {
        self.0.handle
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
        let thread = ThreadState::current(&self.0.process);
        thread.count_copies(data.take_copied());
        let memory = [data.data(), data.offsets()];
        thread.transact(&self.0.process, self.handle(), code, &Outgoing::plain(&memory))
    }

    /// Calls a method and returns when the driver has taken the call; calls to one object arrive in their order.
    ///
    /// # Errors
    /// As [`Proxy::transact`], as far as the driver can say at once.
    pub fn transact_oneway(&self, code: u32, data: &Parcel) -> Result<(), Error> {
        let thread = ThreadState::current(&self.0.process);
        thread.count_copies(data.take_copied());
        let memory = [data.data(), data.offsets()];
        thread.transact_oneway(&self.0.process, self.handle(), code, &Outgoing::plain(&memory))
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

    /// Has `recipient` called, once and on a looper thread of this process, when the object dies.
    ///
    /// # Errors
    /// [`Error::DeadObject`] when it is known to be dead; [`Error::Driver`] when the driver cannot be asked.
    pub fn link_to_death(&self, recipient: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let mut death = self.0.death.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *death {
            Death::Happened => return Err(Error::DeadObject { handle: self.handle() }),
            Death::Asked(_, recipients) => recipients.push(Box::new(recipient)),
            Death::NotAsked => {
                let cookie = self.0.process.proxies().ask(&self.0);
                *death = Death::Asked(cookie, vec![Box::new(recipient)]);
                drop(death);
                let target = HandleCookie { handle: self.handle(), cookie };
                let thread = ThreadState::current(&self.0.process);
                thread.push(Command::RequestDeathNotification(target));
                thread.flush(&self.0.process)?;
            }
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let proxies = self.process.proxies();
        proxies.forget(self.handle);
        if self.handle == CONTEXT_MANAGER {
            return;
        }
        let thread = ThreadState::current(&self.process);
        let death = self.death.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Death::Asked(cookie, _) = *death {
            proxies.unask(cookie);
            thread.push(Command::ClearDeathNotification(HandleCookie { handle: self.handle, cookie }));
        }
        thread.push(Command::Release(self.handle));
        thread.push(Command::Decrefs(self.handle));
        // A thread that serves calls goes back to the driver soon; any other might never.
        if !thread.returns_to_driver() {
            let _ = thread.flush(&self.process); // a driver that is out of order holds no references
        }
    }
}

/// A process's proxies, by handle, and those whose death it waits for, by cookie.
#[derive(Debug, Default)]
pub(crate) struct Proxies(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    handles: HashMap<u32, Weak<Handle>>,
    deaths: HashMap<u64, Weak<Handle>>,
    last_cookie: u64,
}

impl Proxies {
    fn lock(&self) -> std::sync::MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, handle: u32) {
        let mut tables = self.lock();
        if tables.handles.get(&handle).is_some_and(|proxy| proxy.strong_count() == 0) {
            tables.handles.remove(&handle);
        }
    }

    fn ask(&self, handle: &Arc<Handle>) -> u64 {
        let mut tables = self.lock();
        tables.last_cookie += 1;
        let cookie = tables.last_cookie;
        tables.deaths.insert(cookie, Arc::downgrade(handle));
        cookie
    }

    fn unask(&self, cookie: u64) {
        self.lock().deaths.remove(&cookie);
    }

    /// The driver says that the object behind `cookie` is dead.
    pub(crate) fn died(&self, cookie: u64) {
        let Some(handle) = self.lock().deaths.remove(&cookie).and_then(|handle| handle.upgrade()) else {
            return;
        };
        let death = std::mem::replace(
            &mut *handle.death.lock().unwrap_or_else(PoisonError::into_inner),
            Death::Happened,
        );
        if let Death::Asked(_, recipients) = death {
            recipients.into_iter().for_each(|recipient| recipient());
        }
    }
}

impl Process {
    /// The manager of this process's context; whether there is one shows when it is called.
    #[must_use]
    pub fn context_manager(self: &Arc<Self>) -> Proxy {
        self.proxy_for(CONTEXT_MANAGER)
    }

    /// The proxy for a handle that the driver gave to this process.
    pub(crate) fn proxy_for(self: &Arc<Self>, handle: u32) -> Proxy {
        let mut tables = self.proxies().lock();
        if let Some(known) = tables.handles.get(&handle).and_then(Weak::upgrade) {
            return Proxy(known);
        }
        // Handle 0 is always there and needs no reference. Any other came in a buffer, which keeps it alive until this
        // thread gives the buffer back: its commands go out in order, so these come first.
        if handle != CONTEXT_MANAGER {
            let thread = ThreadState::current(self);
            thread.push(Command::Increfs(handle));
            thread.push(Command::Acquire(handle));
        }
        let new = Arc::new(Handle { process: self.clone(), handle, death: Mutex::default() });
        tables.handles.insert(handle, Arc::downgrade(&new));
        Proxy(new)
    }
}
