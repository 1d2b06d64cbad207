//! The service for measuring round trips, over either stack or in process.
//!
//! [`Benchmark`] is the interface. [`Echo`] implements it; a passthrough call runs it directly.
//! This crate reads no clock: a [`Probe`] provides the time and the scheduling of the serving
//! thread. The crate is compiled for speed, because timed calls run through it.
//!
//! ```
//! use roundtrip_echo::{Benchmark, Echo, Probe, Purpose, Scheduling};
//!
//! struct NoClock;
//! impl Probe for NoClock {
//!     fn now_ns(&self) -> u64 {
//!         7
//!     }
//!     fn cpu(&self) -> u32 {
//!         0
//!     }
//!     fn scheduling(&self) -> Scheduling {
//!         Scheduling::default()
//!     }
//! }
//!
//! let service = Echo::new(NoClock);
//! let report = service.call(b"payload", Purpose::Measured)?;
//! assert_eq!((report.received_ns, report.replied_ns), (7, 7));
//! # Ok::<(), roundtrip_binder::Error>(())
//! ```

mod over_binder;
mod over_hwbinder;

use std::sync::Arc;

use roundtrip_binder_driver::RawBytes;

use roundtrip_binder::{
    Binder, Error, NodeOptions, Parcel, ParcelReader, Process, Proxy, Service, Stack, Status, status,
};

const SEND_VEC: u32 = 1;
const NOP: u32 = 2;
const CALL: u32 = 3;
const COPIED_BYTES: u32 = 4;
const TAKE: u32 = 5;

/// The measured interface, implemented by the service itself and by each stack's proxy.
pub trait Benchmark: Send + Sync {
    /// Sends bytes and passes the returned bytes to `take`. Other processes may change these bytes
    /// meanwhile.
    ///
    /// # Errors
    /// The errors of [`Proxy::transact`]; none in process.
    fn send_vec(&self, bytes: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<(), Error>;

    /// Makes a round trip that does nothing.
    ///
    /// # Errors
    /// As [`Benchmark::send_vec`].
    fn nop(&self) -> Result<(), Error>;

    /// Sends bytes and returns the time of their arrival. Unless the purpose is [`Purpose::Plain`],
    /// also returns how the serving thread was scheduled, which costs system calls.
    ///
    /// # Errors
    /// As [`Benchmark::send_vec`].
    fn call(&self, payload: &[u8], purpose: Purpose) -> Result<ServerReport, Error>;

    /// The payload bytes that the serving process copied so far ([`Process::copied_bytes`]).
    ///
    /// # Errors
    /// As [`Benchmark::send_vec`].
    fn server_copied_bytes(&self) -> Result<u64, Error>;
}

/// The purpose of a [`Benchmark::call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Measures only the round trip: the service does nothing else.
    Plain = 0,
    /// A measured call.
    Measured = 1,
    /// A warm-up call before measured calls.
    WarmUp = 2,
}

impl Purpose {
    fn read(reader: &mut ParcelReader<'_>) -> Result<Self, Status> {
        match reader.read_u32()? {
            0 => Ok(Self::Plain),
            1 => Ok(Self::Measured),
            2 => Ok(Self::WarmUp),
            _ => Err(Status::Code(status::BAD_VALUE)),
        }
    }
}

/// Provides what the service cannot know itself.
pub trait Probe: Send + Sync {
    /// The time, in nanoseconds of CLOCK_BOOTTIME.
    fn now_ns(&self) -> u64;
    /// The CPU that the calling thread runs on.
    fn cpu(&self) -> u32;
    /// How the calling thread is scheduled.
    fn scheduling(&self) -> Scheduling;
    /// The service's work between its two timestamps in a call that is not [`Purpose::Plain`].
    /// The default does nothing.
    fn work(&self, _: Purpose) {}
}

/// A thread and how it is scheduled, in the kernel's numbers, as a reply carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// The id of its process.
    pub pid: i32,
    /// Its thread id.
    pub tid: i32,
    /// The kernel's number of its policy (`SCHED_*`).
    pub policy: u32,
    /// Its real-time priority, 1 to 99; 0 for an ordinary policy.
    pub priority: u32,
    /// Its nice value, −20 to 19.
    pub nice: i32,
}

/// The server's report of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerReport {
    /// When the method began, in nanoseconds of CLOCK_BOOTTIME.
    pub received_ns: u64,
    /// When the method was about to return, in nanoseconds of CLOCK_BOOTTIME.
    pub replied_ns: u64,
    /// The CPU that the method ran on.
    pub cpu: u32,
    /// How the serving thread was scheduled, unless the call was [`Purpose::Plain`].
    pub scheduling: Option<Scheduling>,
}

impl ServerReport {
    fn write(&self, parcel: &mut Parcel) {
        parcel.write_u64(self.received_ns);
        parcel.write_u64(self.replied_ns);
        parcel.write_u32(self.cpu);
        parcel.write_bool(self.scheduling.is_some());
        if let Some(scheduling) = self.scheduling {
            parcel.write_i32(scheduling.pid);
            parcel.write_i32(scheduling.tid);
            parcel.write_u32(scheduling.policy);
            parcel.write_u32(scheduling.priority);
            parcel.write_i32(scheduling.nice);
        }
    }

    fn read(reader: &mut ParcelReader<'_>) -> Result<Self, Error> {
        let (received_ns, replied_ns) = (reader.read_u64()?, reader.read_u64()?);
        let cpu = reader.read_u32()?;
        let scheduling = if reader.read_bool()? {
            Some(Scheduling {
                pid: reader.read_i32()?,
                tid: reader.read_i32()?,
                policy: reader.read_u32()?,
                priority: reader.read_u32()?,
                nice: reader.read_i32()?,
            })
        } else {
            None
        };
        Ok(Self { received_ns, replied_ns, cpu, scheduling })
    }
}

/// The service itself. A direct call is a passthrough call.
pub struct Echo {
    probe: Box<dyn Probe>,
}

impl Echo {
    /// Makes a service that fills its reports from `probe`.
    #[must_use]
    pub fn new(probe: impl Probe + 'static) -> Self {
        Self { probe: Box::new(probe) }
    }

    /// Publishes the service on a stack.
    #[must_use]
    pub fn publish(self: Arc<Self>, process: &Arc<Process>, stack: Stack, options: NodeOptions) -> Binder {
        process.publish_with(self.service(process, stack), options)
    }

    /// Makes the object that serves calls on a stack, for `process` to publish.
    #[must_use]
    pub fn service(self: Arc<Self>, process: &Arc<Process>, stack: Stack) -> Service {
        let owner = Arc::downgrade(process);
        match stack {
            Stack::Binder => Service::binder(over_binder::EchoStub {
                echo: self,
                owner,
                token: over_binder::token(process),
            }),
            Stack::Hwbinder => Service::hwbinder(over_hwbinder::EchoStub { echo: self, owner }),
        }
    }

    fn report(&self, purpose: Purpose) -> ServerReport {
        let received_ns = self.probe.now_ns();
        let scheduling = (purpose != Purpose::Plain).then(|| {
            self.probe.work(purpose);
            self.probe.scheduling()
        });
        ServerReport { received_ns, cpu: self.probe.cpu(), scheduling, replied_ns: self.probe.now_ns() }
    }
}

impl Benchmark for Echo {
    fn send_vec(&self, bytes: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<(), Error> {
        take(bytes.into());
        Ok(())
    }

    fn nop(&self) -> Result<(), Error> {
        Ok(())
    }

    fn call(&self, _: &[u8], purpose: Purpose) -> Result<ServerReport, Error> {
        Ok(self.report(purpose))
    }

    fn server_copied_bytes(&self) -> Result<u64, Error> {
        Ok(0)
    }
}

/// Makes a proxy for a benchmark service that another process published on `stack`.
#[must_use]
pub fn connect(proxy: Proxy, stack: Stack) -> Box<dyn Benchmark> {
    match stack {
        Stack::Binder => {
            let token = over_binder::token(proxy.process());
            Box::new(over_binder::EchoProxy { proxy, token })
        }
        Stack::Hwbinder => Box::new(over_hwbinder::EchoProxy(proxy)),
    }
}

/// The service's method over the binder stack that accepts any request and replies with an empty
/// parcel. The request has no interface token.
#[derive(Debug)]
pub struct Sink(Proxy);

impl Sink {
    /// The method of a benchmark service that another process published on the binder stack.
    #[must_use]
    pub fn new(proxy: Proxy) -> Self {
        Self(proxy)
    }

    /// Sends a request and waits for the empty reply.
    ///
    /// # Errors
    /// As [`Proxy::transact`].
    pub fn send(&self, request: &Parcel) -> Result<(), Error> {
        self.0.transact(TAKE, request).map(drop)
    }
}

/// The name under which an instance of the service is registered with its stack's service manager.
#[must_use]
pub fn service_name(stack: Stack, instance: &str) -> String {
    let interface = match stack {
        Stack::Binder => over_binder::INTERFACE,
        Stack::Hwbinder => over_hwbinder::INTERFACE,
    };
    format!("{interface}/{instance}")
}
