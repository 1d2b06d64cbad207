//! Calls to remote objects, with a parcel or a scatter-gather parcel.

use roundtrip_binder_driver::uapi::TF_CLEAR_BUF;

use crate::calls::Reply;
use crate::hwbinder::HwParcel;
use crate::outgoing::Outgoing;
use crate::parcel::Parcel;
use crate::{Error, Proxy};

/// Flags of one call for the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallFlags(u32);

impl CallFlags {
    /// The driver zeroes the buffers of the call and of its reply when they are freed
    /// (`FLAG_CLEAR_BUF`). Meant for passwords and keys.
    pub const CLEAR_BUFFERS: Self = Self(TF_CLEAR_BUF);
}

impl Proxy {
    /// Calls a method and waits for its reply. While it waits, this thread serves nested calls.
    ///
    /// # Errors
    /// [`Error::DeadObject`], [`Error::Failed`] or [`Error::Frozen`] if the driver cannot deliver
    /// the call; [`Error::Status`] if the service could not serve it; [`Error::Driver`] if the
    /// driver fails.
    pub fn transact(&self, code: u32, data: &Parcel) -> Result<Reply<'_>, Error> {
        self.transact_with(code, data, CallFlags::default())
    }

    /// Like [`Proxy::transact`], with flags for the driver.
    ///
    /// # Errors
    /// See [`Proxy::transact`].
    pub fn transact_with(&self, code: u32, data: &Parcel, flags: CallFlags) -> Result<Reply<'_>, Error> {
        data.check_dialect(self.0.process.dialect())?;
        let thread = self.0.process.thread();
        thread.count_copies(data.take_copied());
        let memory = [data.data(), data.offsets()];
        let outgoing = Outgoing::plain(&memory).with_flags(flags.0);
        thread.transact(&self.0.process, self.handle(), code, &outgoing)
    }

    /// Calls a method and returns when the driver has accepted the call. Oneway calls to one object
    /// are served in order, one at a time.
    ///
    /// # Errors
    /// The errors of [`Proxy::transact`] that the driver reports before the call is served.
    pub fn transact_oneway(&self, code: u32, data: &Parcel) -> Result<(), Error> {
        self.transact_oneway_with(code, data, CallFlags::default())
    }

    /// Like [`Proxy::transact_oneway`], with flags for the driver.
    ///
    /// # Errors
    /// See [`Proxy::transact_oneway`].
    pub fn transact_oneway_with(&self, code: u32, data: &Parcel, flags: CallFlags) -> Result<(), Error> {
        data.check_dialect(self.0.process.dialect())?;
        let thread = self.0.process.thread();
        thread.count_copies(data.take_copied());
        let memory = [data.data(), data.offsets()];
        let outgoing = Outgoing::plain(&memory).with_flags(flags.0);
        thread.transact_oneway(&self.0.process, self.handle(), code, &outgoing)
    }

    /// Like [`Proxy::transact`], with a parcel that this thread reuses. `fill` writes its contents.
    ///
    /// # Errors
    /// The errors of [`Proxy::transact`] and of `fill`.
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

    /// Like [`Proxy::call`], with scatter-gather buffers: `fill` lists the memory that the driver
    /// copies.
    ///
    /// # Errors
    /// See [`Proxy::call`].
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

    /// Like [`Proxy::call_hw`], but oneway: does not wait for a reply.
    ///
    /// # Errors
    /// The errors of [`Proxy::transact_oneway`] and of `fill`.
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
