//! Serves one incoming call: finds the object and runs its method. One exchange then sends the
//! reply, frees the request's buffer and waits for the next work.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use roundtrip_binder_driver::uapi::{TF_CLEAR_BUF, TF_ONE_WAY, TransactionData};

use crate::background::Background;
use crate::hwbinder::{HwParcel, HwReader};
use crate::outgoing::Outgoing;
use crate::parcel::{Parcel, ParcelReader};
use crate::process::Object;
use crate::received::Received;
use crate::requests::{DESCRIPTOR, DUMP, EXTENSION, HIDL_BASE, HIDL_DEBUG, HIDL_DESCRIPTOR, HIDL_PING, PING};
use crate::service::{Call, HwStub, Service, Stub};
use crate::thread::ThreadState;
use crate::{Error, Process, Status, WorkSource, exception, status};

impl Object for Service {
    fn serve(
        &self,
        process: &Arc<Process>,
        thread: &ThreadState,
        data: &TransactionData,
    ) -> Result<(), Error> {
        let call = Call::of(data);
        let received = Received::take(process, data);
        match self {
            Self::Binder(stub) => thread.serve_binder(process, &**stub, &call, &received),
            Self::Hwbinder(stub) => thread.serve_hwbinder(process, &**stub, &call, &received),
        }
    }
}

impl Call {
    #[inline]
    fn of(data: &TransactionData) -> Self {
        Self {
            code: data.code,
            oneway: data.flags & TF_ONE_WAY != 0,
            sender_pid: data.sender_pid,
            sender_euid: data.sender_euid,
            clear_buffers: data.flags & TF_CLEAR_BUF != 0,
        }
    }
}

impl ThreadState {
    /// Serves a call that the driver delivered to this thread.
    pub(crate) fn serve(&self, process: &Arc<Process>, data: &TransactionData) -> Result<(), Error> {
        self.serving.set(self.serving.get() + 1);
        let work_source = WorkSource::clear();
        let node = process.nodes().find(data.target, data.cookie);
        let result = match &node {
            Some(node) => node.object().serve(process, self, data),
            None => {
                let received = Received::take(process, data);
                self.answer_status(process, &Call::of(data), &received, status::DEAD_OBJECT, true)
            }
        };
        drop(work_source);
        self.serving.set(self.serving.get() - 1);
        result
    }

    fn serve_binder(
        &self,
        process: &Arc<Process>,
        stub: &dyn Stub,
        call: &Call,
        data: &Received<'_>,
    ) -> Result<(), Error> {
        let background = process.background_scheduling().then(Background::enter).flatten();
        let mut reply = self.take_parcel();
        let outcome = data
            .reader(process, self.copies())
            .map_err(Status::from)
            .and_then(|mut data| dispatch(stub, call, &mut data, &mut reply))
            .or_else(|failed| write_exception(&mut reply, failed));
        let wait = background.is_none();
        let result = match outcome {
            Ok(()) => {
                self.count_copies(reply.take_copied());
                let memory = [reply.data(), reply.offsets()];
                let flags = if call.clear_buffers { TF_CLEAR_BUF } else { 0 };
                self.answer(process, call, data, &Outgoing::plain(&memory).with_flags(flags), wait)
            }
            Err(code) => self.answer_status(process, call, data, code, wait),
        };
        self.keep(&mut reply);
        self.give_parcel(reply);
        if let Some(background) = background {
            background.leave();
        }
        result
    }

    fn serve_hwbinder(
        &self,
        process: &Arc<Process>,
        stub: &dyn HwStub,
        call: &Call,
        data: &Received<'_>,
    ) -> Result<(), Error> {
        let mut reply = HwParcel::from_store(self.take_store());
        let outcome = data
            .reader(process, self.copies())
            .map_err(Status::from)
            .and_then(|plain| {
                let mut data = HwReader::new(plain, data.area()?);
                dispatch_hw(stub, call, &mut data, &mut reply)
            })
            .or_else(|failed| {
                reply.clear();
                write_exception(reply.plain(), failed)
            });
        let result = match outcome {
            Ok(()) => {
                self.count_copies(reply.take_copied());
                reply.send(|outgoing| self.answer(process, call, data, outgoing, true))
            }
            Err(code) => self.answer_status(process, call, data, code, true),
        };
        self.keep(reply.plain());
        self.give_store(reply.into_store());
        result
    }

    fn answer_status(
        &self,
        process: &Process,
        call: &Call,
        data: &Received<'_>,
        code: i32,
        wait: bool,
    ) -> Result<(), Error> {
        let memory = [&code.to_ne_bytes()[..], &[]];
        self.answer(process, call, data, &Outgoing::plain(&memory).status(), wait)
    }

    /// Sends the reply, closes the request's descriptors, frees its buffer and, if `wait`, waits
    /// for the next work. The buffer is freed after the reply, because the reply may refer to it.
    fn answer(
        &self,
        process: &Process,
        call: &Call,
        data: &Received<'_>,
        outgoing: &Outgoing<'_>,
        wait: bool,
    ) -> Result<(), Error> {
        if call.oneway {
            data.give_back(process, self); // sent when this thread waits, which it does next
            return Ok(());
        }
        self.push_reply(outgoing);
        data.give_back(process, self);
        self.exchange(process.connection(), &outgoing.memory(), wait && !process.pool().stopping())
    }
}

/// Runs a method of a binder object, or answers a request that every object supports.
fn dispatch(
    stub: &dyn Stub,
    call: &Call,
    data: &mut ParcelReader<'_>,
    reply: &mut Parcel,
) -> Result<(), Status> {
    match call.code {
        PING => Ok(()),
        DESCRIPTOR => Ok(reply.write_string16(stub.descriptor())?),
        DUMP => {
            let to = data.read_fd()?;
            let text = stub.dump(&data.read_string16_vec()?);
            write_dump(to, &text);
            Ok(())
        }
        EXTENSION => {
            reply.write_nullable_binder(stub.extension().as_ref());
            Ok(())
        }
        _ => stub.on_transact(call, data, reply),
    }
}

/// Runs a method of a hwbinder object, or answers a request that every object supports.
fn dispatch_hw<'a>(
    stub: &'a dyn HwStub,
    call: &Call,
    data: &mut HwReader<'a>,
    reply: &mut HwParcel<'a>,
) -> Result<(), Status> {
    match call.code {
        HIDL_PING => {
            reply.write_no_exception();
            Ok(())
        }
        HIDL_DESCRIPTOR => {
            reply.write_no_exception();
            Ok(reply.write_string(stub.descriptor())?)
        }
        HIDL_DEBUG => {
            data.check_interface(HIDL_BASE)?;
            let handle = data.read_native_handle()?.unwrap_or_default();
            let arguments = data.read_string_vec()?;
            handle.descriptors.into_iter().take(1).for_each(|to| write_dump(to, &stub.dump(&arguments)));
            reply.write_no_exception();
            Ok(())
        }
        _ => stub.on_transact(call, data, reply),
    }
}

/// Writes an object's dump. Ignores a failure, which means that the caller has closed its end.
fn write_dump(to: OwnedFd, text: &str) {
    let _ = std::fs::File::from(to).write_all(text.as_bytes());
}

/// Writes an exception to the reply. A status code is returned as the error instead, because it
/// needs another kind of reply.
fn write_exception(reply: &mut Parcel, failed: Status) -> Result<(), i32> {
    reply.clear();
    let written = match failed {
        Status::Code(code) => return Err(code),
        Status::Exception { code, message } => reply.write_exception(code, &message),
        Status::ServiceSpecific { error, message } if reply.is_hwbinder() => {
            reply.write_exception(exception::SERVICE_SPECIFIC, &format!("{message} (error {error})"))
        }
        Status::ServiceSpecific { error, message } => reply.write_service_specific(error, &message),
    };
    written.map_err(|_| status::FAILED_TRANSACTION)
}
