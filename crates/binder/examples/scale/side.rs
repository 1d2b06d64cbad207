//! The measured processes: the service manager, hosts of services, and clients. Each reports its
//! results as lines, and exits when its standard input is closed.

use std::io::{BufRead as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use roundtrip_binder::manager::{self, ServiceManager};
use roundtrip_binder::{Binder, Call, Parcel, ParcelReader, Process, Service, Stack, Status, Stub};
use roundtrip_binder_emulator::Emulated;

use crate::Result;

/// Android's defaults for each process: a receive area of 1 MiB minus two pages, and up to 15
/// looper threads that the driver may request.
const AREA_BYTES: u64 = (1 << 20) - 2 * 4096;
const MAX_THREADS: u32 = 15;

const ECHO: u32 = 1;

struct Echo;

impl Stub for Echo {
    fn descriptor(&self) -> &str {
        "roundtrip.IScale"
    }

    fn on_transact(
        &self,
        call: &Call,
        data: &mut ParcelReader<'_>,
        reply: &mut Parcel,
    ) -> std::result::Result<(), Status> {
        if call.code != ECHO {
            return Err(Status::UNKNOWN_TRANSACTION);
        }
        reply.write_no_exception();
        reply.write_u32(data.read_u32()?);
        Ok(())
    }
}

fn join(address: &str) -> Result<Arc<Process>> {
    Ok(Process::new(Arc::new(Emulated::join(address, AREA_BYTES)?)))
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Waits for a line from the parent. Returns false at the end of standard input.
fn told() -> Result<bool> {
    Ok(std::io::stdin().lock().read_line(&mut String::new())? > 0)
}

fn name(index: u32) -> String {
    format!("scale.{index}")
}

pub(crate) fn manager(address: &str) -> Result<()> {
    let process = join(address)?;
    process.set_max_threads(MAX_THREADS)?;
    manager::serve(&process, Stack::Binder)?;
    process.start_looper()?;
    say("ready")?;
    told()?;
    process.stop();
    Ok(())
}

/// Registers services and reports the mean time of a registration, in nanoseconds.
pub(crate) fn host(address: &str, first: &str, count: &str) -> Result<()> {
    let (first, count): (u32, u32) = (first.parse()?, count.parse()?);
    let process = join(address)?;
    process.set_max_threads(MAX_THREADS)?;
    process.start_looper()?;
    let manager = ServiceManager::new(&process, Stack::Binder);
    let services: Vec<Binder> = (0..count).map(|_| process.publish(Service::binder(Echo))).collect();
    let start = Instant::now();
    for (service, index) in services.iter().zip(first..) {
        manager.add(&name(index), service)?;
    }
    say(&(start.elapsed().as_nanos() as f64 / f64::from(count)).to_string())?;
    told()?;
    process.stop();
    Ok(())
}

/// Looks services up and reports the mean time of a lookup, in nanoseconds. Then waits, calls the
/// services in turn for the given time, and reports calls per second and the median and the 99th
/// percentile of a call, in nanoseconds.
pub(crate) fn client(address: &str, first: &str, count: &str, milliseconds: &str) -> Result<()> {
    let (first, count): (u32, u32) = (first.parse()?, count.parse()?);
    let time = Duration::from_millis(milliseconds.parse()?);
    let process = join(address)?;
    let manager = ServiceManager::new(&process, Stack::Binder);
    let start = Instant::now();
    let services = (first..first + count)
        .map(|index| manager.get(&name(index)))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    say(&(start.elapsed().as_nanos() as f64 / f64::from(count)).to_string())?;
    let proxies = services
        .iter()
        .map(|service| service.remote().ok_or("a service of this process"))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    told()?;
    // Room for all calls, so that the vector does not grow during the measurement.
    let mut times_ns: Vec<u64> = Vec::with_capacity(2_000_000);
    let start = Instant::now();
    for (number, proxy) in (0_u32..).zip(proxies.iter().cycle()) {
        let before = Instant::now();
        let reply = proxy.call(ECHO, |parcel| {
            parcel.write_u32(number);
            Ok(())
        })?;
        let mut reader = reply.reader()?;
        reader.read_exception()?;
        if reader.read_u32()? != number {
            return Err("this is no echo".into());
        }
        drop(reply);
        times_ns.push(before.elapsed().as_nanos() as u64);
        if start.elapsed() >= time {
            break;
        }
    }
    let per_second = times_ns.len() as f64 / start.elapsed().as_secs_f64();
    times_ns.sort_unstable();
    let at = |percent: usize| times_ns[(times_ns.len() * percent / 100).min(times_ns.len() - 1)];
    say(&format!("{per_second} {} {}", at(50), at(99)))?;
    // Stay in the context until the parent has measured memory.
    told()?;
    Ok(())
}
