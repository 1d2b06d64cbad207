//! What each aspect expects of a serving thread. Pure: must not know how its scheduling was
//! observed.

use roundtrip_latency::Policy;

use roundtrip_run::Scheduling;
use roundtrip_run::ipc::traits::Aspect;

/// Whether a serving thread does what an aspect expects.
pub(super) fn holds(
    aspect: Aspect,
    caller: Scheduling,
    least: Option<Scheduling>,
    serving: Scheduling,
) -> bool {
    match aspect {
        Aspect::RealtimeInheritance => serving.policy == caller.policy && serving.priority == caller.priority,
        Aspect::LeastPolicy => {
            least.is_some_and(|least| serving.policy == least.policy && serving.priority >= least.priority)
        }
        Aspect::NiceRaised | Aspect::NiceLowered => {
            !serving.policy.is_realtime() && serving.nice == caller.nice
        }
        Aspect::BackgroundPolicy => serving.policy == Policy::Batch,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_aspect_checks_only_its_own_property() {
        let (other, nice, fifo) = (Scheduling::other(0), Scheduling::other(10), Scheduling::fifo(50));
        let batch = Scheduling { policy: Policy::Batch, ..nice };
        assert!(holds(Aspect::RealtimeInheritance, fifo, None, fifo));
        assert!(!holds(Aspect::RealtimeInheritance, fifo, None, Scheduling::fifo(49)));
        assert!(!holds(Aspect::RealtimeInheritance, fifo, None, other));
        assert!(holds(Aspect::LeastPolicy, other, Some(fifo), fifo));
        assert!(!holds(Aspect::LeastPolicy, other, Some(fifo), other));
        assert!(
            holds(Aspect::NiceRaised, nice, None, batch),
            "the nice value is inherited, background or not"
        );
        assert!(!holds(Aspect::NiceRaised, nice, None, other));
        assert!(holds(Aspect::BackgroundPolicy, nice, None, batch));
        assert!(!holds(Aspect::BackgroundPolicy, nice, None, nice));
    }
}
