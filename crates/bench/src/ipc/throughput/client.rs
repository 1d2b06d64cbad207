//! The client's side: a worker that calls the service in batches and times them. Must not know how
//! many batches there will be, nor what the figures are used for.

use std::hint::black_box;
use std::sync::Arc;

use roundtrip_binder::Process;
use roundtrip_echo::{Benchmark, Echo};
use roundtrip_latency::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::clock::now_ns;
use crate::error::{Error, Result};
use crate::ipc::endpoint::find;
use crate::ipc::{Endpoint, SchedulingProbe};
use crate::sched;
use crate::worker::{Link, Work, is_stopped};
use roundtrip_run::ipc::Stack;
use roundtrip_run::ipc::throughput::Batch;

/// The client worker's job.
#[derive(Debug, Serialize, Deserialize)]
pub struct ThroughputJob {
    pub(super) service: Service,
    /// The allowed CPUs.
    pub(super) cpus: Vec<u32>,
    /// The longest payload, in bytes.
    pub(super) max_len: usize,
}

/// Where the service is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Service {
    /// In another process.
    Remote { endpoint: Endpoint, stack: Stack, instance: String },
    /// In the client's own process.
    Local,
}

/// The parent's requests. The answers are, in the order of the variants, a [`Batch`], a
/// [`Histogram`] and a list of sentences.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    /// Calls timed together.
    Batch { size_bytes: usize, calls: u64 },
    /// Calls timed individually.
    Each { size_bytes: usize, calls: u64 },
    /// What the driver could not do so far.
    Limits,
}

impl Work for ThroughputJob {
    const NAME: &'static str = "throughput client";
    const PROCESS: &'static str = "client";

    fn run(self, link: &mut Link) -> Result<()> {
        sched::set_allowed_cpus(0, &self.cpus)?;
        let (process, service) = connect(&self.service)?;
        let payload: Vec<u8> = (0..self.max_len).map(|i| (i % 256) as u8).collect();
        link.ready()?;
        while let Some(ask) = link.receive()? {
            match ask {
                Ask::Batch { size_bytes, calls } => {
                    link.send(&batch(&*service, &payload[..size_bytes], calls)?)?;
                }
                Ask::Each { size_bytes, calls } => {
                    link.send(&each(&*service, &payload[..size_bytes], calls)?)?;
                }
                Ask::Limits => {
                    link.send(&process.as_ref().map_or(Vec::new(), |process| process.driver().limits()))?;
                }
            }
        }
        Ok(())
    }
}

/// The service, and the client's process on the driver if a driver is used.
type Connected = (Option<Arc<Process>>, Box<dyn Benchmark>);

fn connect(service: &Service) -> Result<Connected> {
    match service {
        Service::Remote { endpoint, stack, instance } => {
            let process = endpoint.connect()?;
            let service = find(&process, *stack, instance)?;
            Ok((Some(process), service))
        }
        Service::Local => Ok((None, Box::new(Echo::new(SchedulingProbe)))),
    }
}

/// Times calls together: each clock is read twice, however many calls there are.
fn batch(service: &dyn Benchmark, payload: &[u8], calls: u64) -> Result<Batch> {
    check_echo(service, payload)?;
    let mut one_way_bytes = 0;
    let cpu_before_ns = process_cpu_ns();
    let start_ns = now_ns();
    let mut made = 0;
    while made < calls {
        service.send_vec(payload, &mut |bytes| one_way_bytes += black_box(bytes).len() as u64)?;
        made += 1;
        if is_stopped() {
            break;
        }
    }
    let calls = made;
    let elapsed_ns = now_ns() - start_ns;
    let cpu_ns = process_cpu_ns() - cpu_before_ns;
    if one_way_bytes != calls * payload.len() as u64 {
        return Err(Error::WrongEcho {
            size_bytes: payload.len(),
            reason: format!("{calls} calls returned {one_way_bytes} bytes in total"),
        });
    }
    Ok(Batch { iterations: calls, elapsed_ns, cpu_ns, one_way_bytes })
}

/// Times calls individually.
fn each(service: &dyn Benchmark, payload: &[u8], calls: u64) -> Result<Histogram> {
    check_echo(service, payload)?;
    let mut latency = Histogram::new();
    for _ in 0..calls {
        let start_ns = now_ns();
        service.send_vec(payload, &mut |bytes| {
            black_box(bytes);
        })?;
        latency.record(now_ns() - start_ns);
    }
    Ok(latency)
}

/// Makes an untimed call and checks the echo byte by byte.
fn check_echo(service: &dyn Benchmark, payload: &[u8]) -> Result<()> {
    let mut wrong = None;
    service.send_vec(payload, &mut |bytes| {
        let bytes = bytes.to_vec();
        wrong = if bytes.len() != payload.len() {
            Some(format!("{} bytes were returned", bytes.len()))
        } else {
            let at = bytes.iter().zip(payload).position(|(echo, sent)| echo != sent);
            at.map(|at| format!("byte {at} was sent as {} and returned as {}", payload[at], bytes[at]))
        };
    })?;
    match wrong {
        Some(reason) => Err(Error::WrongEcho { size_bytes: payload.len(), reason }),
        None => Ok(()),
    }
}

/// CPU time of all threads of this process, in nanoseconds (clock_gettime(2),
/// CLOCK_PROCESS_CPUTIME_ID).
fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use roundtrip_binder::RawBytes;

    use super::*;

    /// A service that echoes correctly a number of times, then wrongly.
    struct Liar {
        truths: AtomicU64,
        lie: fn(&[u8]) -> Vec<u8>,
    }

    impl Benchmark for Liar {
        fn send_vec(
            &self,
            bytes: &[u8],
            take: &mut dyn FnMut(RawBytes<'_>),
        ) -> Result<(), roundtrip_binder::Error> {
            let honest =
                self.truths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if honest.is_ok() {
                take(bytes.into())
            } else {
                take((&(self.lie)(bytes)).into())
            }
            Ok(())
        }

        fn nop(&self) -> Result<(), roundtrip_binder::Error> {
            Ok(())
        }

        fn call(
            &self,
            _: &[u8],
            _: roundtrip_echo::Purpose,
        ) -> Result<roundtrip_echo::ServerReport, roundtrip_binder::Error> {
            Ok(roundtrip_echo::ServerReport::default())
        }

        fn server_copied_bytes(&self) -> Result<u64, roundtrip_binder::Error> {
            Ok(0)
        }
    }

    fn liar(truths: u64, lie: fn(&[u8]) -> Vec<u8>) -> Liar {
        Liar { truths: truths.into(), lie }
    }

    #[test]
    fn a_wrong_byte_is_an_error_that_names_it() {
        let flipped = liar(0, |bytes| {
            let mut bytes = bytes.to_vec();
            bytes[2] ^= 1;
            bytes
        });
        for error in [batch(&flipped, &[7; 4], 1).unwrap_err(), each(&flipped, &[7; 4], 1).unwrap_err()] {
            assert_eq!(error.to_string(), "wrong echo of 4 bytes: byte 2 was sent as 7 and returned as 6");
        }
    }

    #[test]
    fn an_echo_that_becomes_shorter_during_a_batch_is_an_error() {
        let lazy = liar(3, |bytes| bytes[1..].to_vec());
        let error = batch(&lazy, &[7; 4], 5).unwrap_err().to_string();
        assert_eq!(error, "wrong echo of 4 bytes: 5 calls returned 17 bytes in total");
        assert!(check_echo(&lazy, &[7; 4]).unwrap_err().to_string().contains("3 bytes were returned"));
    }

    #[test]
    fn a_batch_counts_its_calls_and_the_bytes_that_came_back() {
        let echo = Echo::new(SchedulingProbe);
        let batch = batch(&echo, &[1, 2, 3], 10).unwrap();
        assert_eq!((batch.iterations, batch.one_way_bytes), (10, 30));
        assert_eq!(each(&echo, &[1, 2, 3], 10).unwrap().count(), 10);
    }
}
