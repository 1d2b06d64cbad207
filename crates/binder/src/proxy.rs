//! Calls on remote objects: through a parcel, or a scatter-gather parcel.

use binder_driver::uapi::TF_CLEAR_BUF;

use crate::calls::Reply;
use crate::hwbinder::HwParcel;
use crate::outgoing::Outgoing;
use crate::parcel::Parcel;
use crate::{Error, Proxy};

/// How the driver is to treat one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallFlags(u32);

impl CallFlags {
    /// The driver overwrites the buffers of the call and of its reply with zeros when they are
    /// given back (`FLAG_CLEAR_BUF`): for passwords and keys.
    pub const CLEAR_BUFFERS: Self = Self(TF_CLEAR_BUF);
}

impl Proxy {
    /// Calls a method and waits for its reply. While it waits, this thread serves calls that come
    /// back to it.
    ///
    /// # Errors
    /// [`Error::DeadObject`], [`Error::Failed`], [`Error::Frozen`] as the driver says;
    /// [`Error::Status`] when the service could not serve the call; [`Error::Driver`] when the
    /// driver is out of order.
    pub fn transact(&self, code: u32, data: &Parcel) -> Result<Reply<'_>, Error> {
        self.transact_with(code, data, CallFlags::default())
    }

    /// As [`Proxy::transact`], with flags for the driver.
    ///
    /// # Errors
    /// As [`Proxy::transact`].
    pub fn transact_with(&self, code: u32, data: &Parcel, flags: CallFlags) -> Result<Reply<'_>, Error> {
        data.check_dialect(self.0.process.dialect())?;
        let thread = self.0.process.thread();
        thread.count_copies(data.take_copied());
        let memory = [data.data(), data.offsets()];
        let outgoing = Outgoing::plain(&memory).with_flags(flags.0);
        thread.transact(&self.0.process, self.handle(), code, &outgoing)
    }

    /// Calls a method and returns when the driver has taken the call; calls to one object arrive in
    /// their order.
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
        let thread = self.0.process.thread();
        thread.count_copies(data.take_copied());
        let memory = [data.data(), data.offsets()];
        let outgoing = Outgoing::plain(&memory).with_flags(flags.0);
        thread.transact_oneway(&self.0.process, self.handle(), code, &outgoing)
    }

    /// As [`Proxy::transact`], with a parcel of this thread's that is used again and again: `fill`
    /// writes it.
    ///
    /// # Errors
    /// As [`Proxy::transact`]; what `fill` returns.
    pub fn call(
        &self,
        code: u32,
        fill: impl FnOnce(&mut Parcel) -> Result<(), Error>,
    ) -> Result<Reply<'_>, Error> {
        let thread = self.0.process.thread();
        let mut parcel = thread.take_parcel();
        let result = fill(&mut parcel).and_then(|()| {
            thread.count_copies(parcel.take_copied());
            let memory = [parcel.data(), parcel.offsets()];
            thread.transact(&self.0.process, self.handle(), code, &Outgoing::plain(&memory))
        });
        thread.give_parcel(parcel);
        result
    }

    /// As [`Proxy::call`], with scatter-gather buffers: `fill` names memory, and the driver copies
    /// from there.
    ///
    /// # Errors
    /// As [`Proxy::call`].
    pub fn call_hw<'a>(
        &self,
        code: u32,
        fill: impl FnOnce(&mut HwParcel<'a>) -> Result<(), Error>,
    ) -> Result<Reply<'_>, Error> {
        let thread = self.0.process.thread();
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
        let thread = self.0.process.thread();
        let mut parcel = HwParcel::from_store(thread.take_store());
        let result = fill(&mut parcel).and_then(|()| {
            thread.count_copies(parcel.take_copied());
            parcel.send(|outgoing| thread.transact_oneway(&self.0.process, self.handle(), code, outgoing))
        });
        thread.give_store(parcel.into_store());
        result
    }
}
