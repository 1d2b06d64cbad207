//! Who stopped the recorder: a client after a slow call, or another program. Must not know what is
//! recorded.

use super::messages::Stop;

/// A stop that found the recorder off although it had been switched on before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unexplained {
    /// When the recorder was last certainly on, in nanoseconds.
    pub(super) on_ns: u64,
    /// When it was certainly off.
    pub(super) off_ns: u64,
    /// The snapshot that was then taken.
    pub(super) snapshot: Option<u32>,
}

/// The stops of a turn.
#[derive(Debug, Default)]
pub(super) struct Stops {
    unexplained: Vec<Unexplained>,
}

impl Stops {
    /// Adds a client's stop after a call that ended at `end_ns`. The recorder was last switched on
    /// at `armed_ns`. `snapshot` is what was then stored. Clients may report their stops in any
    /// order.
    pub(super) fn add(&mut self, stop: Stop, end_ns: u64, armed_ns: u64, snapshot: Option<u32>) {
        if stop.was_on {
            // This client may be the one that stopped it for another.
            self.unexplained.retain(|other| stop.at_ns <= other.on_ns || end_ns >= other.off_ns);
        } else if armed_ns < end_ns {
            self.unexplained.push(Unexplained { on_ns: armed_ns, off_ns: stop.at_ns, snapshot });
        }
    }

    /// The stops of a turn that no client can explain. To be called once all clients have reported.
    pub(super) fn take(&mut self) -> Vec<Unexplained> {
        std::mem::take(&mut self.unexplained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(at_ns: u64, was_on: bool) -> Stop {
        Stop { at_ns, was_on }
    }

    #[test]
    fn a_recorder_that_no_client_stopped_was_stopped_by_another_program() {
        let mut stops = Stops::default();
        stops.add(stop(20, true), 19, 10, Some(1));
        stops.add(stop(40, false), 39, 30, Some(2));
        assert_eq!(stops.take(), [Unexplained { on_ns: 30, off_ns: 40, snapshot: Some(2) }]);
        assert_eq!(stops.take(), []);
    }

    #[test]
    fn another_client_may_have_stopped_it() {
        // It reports later.
        let mut stops = Stops::default();
        stops.add(stop(40, false), 39, 30, Some(2));
        stops.add(stop(35, true), 34, 50, Some(2));
        assert_eq!(stops.take(), []);
        // It has reported, and the recorder was switched on again before the second stop, but
        // after the second call.
        stops.add(stop(35, true), 34, 30, Some(2));
        stops.add(stop(40, false), 39, 50, None);
        assert_eq!(stops.take(), []);
        // Its stop was long before.
        stops.add(stop(40, false), 39, 30, None);
        stops.add(stop(25, true), 24, 50, None);
        assert_eq!(stops.take().len(), 1);
    }
}
