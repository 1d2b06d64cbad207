//! The worker program's jobs: some well-behaved, some not.
#![allow(clippy::print_stdout)] // A stray print is one of the things that a worker must survive.

use std::io::Write;
use std::time::Duration;

use roundtrip_bench::worker::{Link, Work};
use roundtrip_bench::{Error, Result};
use roundtrip_latency::Sample;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TestJob {
    Echo,
    Samples(u64),
    Print,
    Fail(String),
    Exit(u8),
    Garble,
    Sleep,
    SleepBeforeReady,
    WriteToDescriptors,
}

impl Work for TestJob {
    const NAME: &'static str = "test";

    fn run(self, link: &mut Link) -> Result<()> {
        if !matches!(self, Self::SleepBeforeReady) {
            link.ready()?;
        }
        match self {
            Self::Echo => {
                while let Some(message) = link.receive::<serde_json::Value>()? {
                    link.send(&message)?;
                }
            }
            Self::Samples(count) => {
                let samples: Vec<_> =
                    (0..count).map(|n| Sample { start_ns: n, end_ns: 2 * n, ..Sample::default() }).collect();
                link.send_samples(&samples)?;
            }
            Self::Print => {
                println!("a stray line that is no frame");
                link.send(&"after the stray line")?;
            }
            Self::Fail(message) => return Err(Error::WrongEcho { size_bytes: 0, reason: message }),
            Self::Exit(code) => std::process::exit(i32::from(code)),
            // The parent reads from the pipe that was standard output when this process started.
            Self::Garble => {
                let pipe = (3..16).map(|fd| format!("/proc/self/fd/{fd}")).find(|path| {
                    std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"))
                });
                let mut file = std::fs::File::options().write(true).open(pipe.unwrap()).unwrap();
                file.write_all(b"thread panicked at nowhere").unwrap();
            }
            Self::Sleep | Self::SleepBeforeReady => std::thread::sleep(Duration::from_secs(600)),
            Self::WriteToDescriptors => {
                while let Some((text, descriptors)) = link.receive_with_descriptors::<String>()? {
                    for descriptor in descriptors {
                        std::fs::File::from(descriptor).write_all(text.as_bytes()).unwrap();
                    }
                    link.send(&())?;
                }
            }
        }
        Ok(())
    }
}
