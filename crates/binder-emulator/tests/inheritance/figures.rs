//! How long calls of a real-time caller take, by the way its priority is inherited and by the
//! background load.

use std::time::{Duration, Instant};

use roundtrip_binder_driver::Profile;
use roundtrip_binder_emulator::{Context, InheritBy};

use crate::hogs::{Hogs, Kind};
use crate::party::{KEEP, Party};
use crate::unprivileged::{as_root, unprivileged};

const PRIORITY: u32 = 99;
/// The duration for each load. Hogs end after it, so a caller whose server is not boosted ends too.
const SECONDS: Duration = Duration::from_secs(4);
/// Between calls, so that they do not take the CPU time that the kernel leaves to real-time
/// threads.
const PAUSE: Duration = Duration::from_micros(200);

fn measure(how: &str, inherit_by: InheritBy) {
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let server = Party::manager(&context);
    let mut client = Party::join(&context);
    client.driver.set_inherit_by(inherit_by);
    for kinds in [&[][..], &[Kind::Ordinary], &[Kind::Realtime], &[Kind::Ordinary, Kind::Realtime]] {
        let hogs = Hogs::start(kinds, 50, SECONDS);
        let (begin, mut times) = (Instant::now(), Vec::new());
        while begin.elapsed() < SECONDS {
            std::thread::sleep(PAUSE);
            let called = Instant::now();
            client.ask(0, KEEP, None);
            times.push(called.elapsed());
        }
        drop(hogs);
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
        println!(
            "{how:28} beside {kinds:?}: {} calls, p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, max {:.1} us",
            times.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
    }
    drop(server);
}

#[test]
#[ignore = "takes a minute, and all CPUs: shows figures"]
fn call_times_by_the_way_of_priority_inheritance() {
    let only = std::env::var("INHERIT_BY").unwrap_or_default();
    let chosen = move |how: &str| how.contains(&only);
    if chosen("root") {
        as_root(PRIORITY, || measure("root, policy", InheritBy::Policy));
    }
    if chosen("futex") {
        unprivileged(PRIORITY, || measure("no permission, futex", InheritBy::Auto));
    }
    if chosen("nothing") {
        unprivileged(PRIORITY, || measure("no permission, no inheritance", InheritBy::Policy));
    }
}
