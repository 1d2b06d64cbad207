//! The samples of a latency result as CSV. Pure: a result in, text out.

use roundtrip_latency::Placement;
use roundtrip_run::ipc::latency::LatencyResult;

use crate::text::csv::Line;

/// One line per sample, for a plan that keeps samples. Times are in nanoseconds of CLOCK_BOOTTIME.
#[must_use]
pub fn samples(result: &LatencyResult) -> String {
    let mut out = String::from(
        "stack,inheritance,pair,caller,intended_ns,start_ns,received_ns,replied_ns,end_ns,\
         caller_cpu,server_cpu,server_policy,server_priority,server_nice\n",
    );
    for series in &result.series {
        for (index, pair) in series.pairs.iter().enumerate() {
            for caller in &pair.callers {
                for sample in &caller.samples {
                    let Placement { cpu, policy, priority, nice } = sample.server;
                    Line::of(&mut out)
                        .field(series.stack)
                        .field(series.inheritance.name())
                        .field(index)
                        .field(caller.caller)
                        .field(sample.intended_ns)
                        .field(sample.start_ns)
                        .field(sample.received_ns)
                        .field(sample.replied_ns)
                        .field(sample.end_ns)
                        .field(sample.caller.cpu)
                        .field(cpu)
                        .field(policy.name())
                        .field(priority)
                        .field(nice)
                        .end();
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::latency::fixture;

    #[test]
    fn samples_are_a_line_each() {
        let text = samples(&fixture::result());
        let columns = text.lines().next().unwrap().split(',').count();
        assert_eq!(text.lines().count(), 1 + 3);
        assert!(text.lines().all(|line| line.split(',').count() == columns), "{text}");
        assert_eq!(
            text.lines().nth(1),
            Some("hwbinder,on,0,fifo:99,990,1000,2000,2500,101000,0,0,SCHED_FIFO,99,0")
        );
    }
}
