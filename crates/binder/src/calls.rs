//! Outgoing calls, and the driver's requests that arrive while a thread waits for a reply.
//!
//! A call takes no lock and allocates nothing. This file handles only bytes, offsets and buffers;
//! it knows nothing about parcels.

use std::rc::Rc;
use std::sync::Arc;

use roundtrip_binder_driver::uapi::{TF_ACCEPT_FDS, TF_ONE_WAY, TF_STATUS_CODE, TransactionData};
use roundtrip_binder_driver::{Command, ReadableMemory, Return};

use crate::hwbinder::HwReader;
use crate::outgoing::Outgoing;
use crate::parcel::ParcelReader;
use crate::received::Received;
use crate::thread::ThreadState;
use crate::{Error, Process};

impl ThreadState {
    /// Makes a synchronous call. This takes one exchange with the driver, unless the driver sends
    /// another return before the reply.
    pub(crate) fn transact<'p>(
        self: &Rc<Self>,
        process: &'p Arc<Process>,
        handle: u32,
        code: u32,
        outgoing: &Outgoing<'_>,
    ) -> Result<Reply<'p>, Error> {
        self.push_outgoing(outgoing, false, handle, code, outgoing.flags() | TF_ACCEPT_FDS);
        self.calling.set(self.calling.get() + 1);
        let answer = self.wait_for_reply(process, handle, code, &outgoing.memory());
        self.calling.set(self.calling.get() - 1);
        let data = answer?;
        let received = Received::take(process, &data);
        let reply = Reply { process, thread: self.clone(), received: Some(received) };
        if data.flags & TF_STATUS_CODE == 0 { Ok(reply) } else { Err(reply.status()) }
    }

    #[inline(always)]
    fn wait_for_reply(
        &self,
        process: &Arc<Process>,
        handle: u32,
        code: u32,
        memory: &ReadableMemory<'_>,
    ) -> Result<TransactionData, Error> {
        loop {
            match self.next(process.connection(), memory)? {
                Some(Return::Reply(data)) => return Ok(data),
                Some(Return::DeadReply) => return Err(Error::DeadObject { handle }),
                Some(Return::FailedReply) => return Err(refused(process, handle, code)),
                Some(Return::FrozenReply) => return Err(Error::Frozen { handle }),
                Some(other) => self.handle(process, &other)?,
                None => {}
            }
        }
    }

    /// Makes a oneway call and returns when the driver has accepted it.
    pub(crate) fn transact_oneway(
        &self,
        process: &Arc<Process>,
        handle: u32,
        code: u32,
        outgoing: &Outgoing<'_>,
    ) -> Result<(), Error> {
        self.push_outgoing(outgoing, false, handle, code, outgoing.flags() | TF_ACCEPT_FDS | TF_ONE_WAY);
        loop {
            match self.next_of(process.connection(), &outgoing.memory(), true)? {
                Some(Return::TransactionComplete) if self.unacknowledged.get() > 0 => self.acknowledged(),
                Some(Return::OnewaySpamSuspect) => {
                    process.suspected_of_spam();
                    return Ok(());
                }
                Some(Return::TransactionComplete | Return::TransactionPendingFrozen) => return Ok(()),
                Some(Return::DeadReply) => return Err(Error::DeadObject { handle }),
                Some(Return::FailedReply) => return Err(refused(process, handle, code)),
                Some(Return::FrozenReply) => return Err(Error::Frozen { handle }),
                Some(other) => self.handle(process, &other)?,
                None => {}
            }
        }
    }

    /// Handles a return that does not answer this thread's own call.
    pub(crate) fn handle(&self, process: &Arc<Process>, asked: &Return) -> Result<(), Error> {
        match *asked {
            Return::Transaction(ref data) | Return::TransactionSecCtx(ref data, _) => {
                return self.serve(process, data);
            }
            Return::TransactionComplete => self.acknowledged(),
            Return::Increfs(node) => self.push(Command::IncrefsDone(node)),
            Return::Acquire(node) => {
                process.nodes().count(node.ptr, 1);
                self.push(Command::AcquireDone(node));
            }
            Return::Release(node) => process.nodes().count(node.ptr, -1),
            Return::SpawnLooper => process.spawn_registered_looper(),
            Return::DeadBinder(cookie) => self.told_of_death(process, cookie),
            Return::FrozenBinder(info) => self.freeze_state_changed(process, info),
            Return::Error(errno) => return Err(Error::Reported { errno }),
            // All other returns need no action. Weak references need not keep a node alive, because
            // its name is never reused. A failed reply affects only its caller.
            _ => {}
        }
        Ok(())
    }
}

/// A received reply. Dropping it queues the release of its buffer in this process's area; the
/// release goes out with the thread's next call.
#[derive(Debug)]
pub struct Reply<'p> {
    process: &'p Arc<Process>,
    thread: Rc<ThreadState>,
    /// `Some` until the reply is dropped.
    received: Option<Received<'p>>,
}

impl<'p> Reply<'p> {
    fn received(&self) -> Result<&Received<'p>, Error> {
        self.received.as_ref().ok_or(Error::Malformed {
            what: "a reply",
            at: 0,
            problem: "it was given back",
        })
    }

    /// Returns a reader for the reply of a binder object.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the driver named bytes outside the area.
    pub fn reader(&self) -> Result<ParcelReader<'_>, Error> {
        self.received()?.reader(self.process, self.thread.copies())
    }

    /// Returns a reader for the reply of a hwbinder object.
    ///
    /// # Errors
    /// See [`Reply::reader`].
    pub fn hw_reader(&self) -> Result<HwReader<'_>, Error> {
        Ok(HwReader::new(self.reader()?, self.received()?.area()?))
    }

    fn status(&self) -> Error {
        let word = self.received().and_then(|received| Ok(received.data()?.array(0)));
        match word.map(|word| word.map(i32::from_ne_bytes)) {
            Ok(Some(code)) => Error::Status { code },
            Ok(None) => Error::Malformed { what: "a status", at: 0, problem: "it has less than 4 bytes" },
            Err(error) => error,
        }
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if let Some(received) = self.received.take() {
            received.give_back(self.process, &self.thread);
        }
    }
}

/// The error for a call that the driver refused, with the driver's errno if it reports one.
#[cold]
fn refused(process: &Process, handle: u32, code: u32) -> Error {
    let errno = process.driver().extended_error().map_or(0, |error| error.param);
    Error::Failed { handle, code, errno }
}
