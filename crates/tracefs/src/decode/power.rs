//! Idle states and frequencies of CPUs.

use super::Reader;
use super::slots::Number;
use crate::event::Body;
use crate::format::Format;

pub(super) fn reader(format: &Format) -> Option<Reader> {
    let (state, cpu) = (Number::of(format, "state"), Number::of(format, "cpu_id"));
    Some(match (format.system.as_str(), format.name.as_str()) {
        ("power", "cpu_idle") => {
            let (state, cpu) = (state?, cpu?);
            // All ones is `PWR_EVENT_EXIT`.
            Box::new(move |r, _| {
                Some(Body::Idle {
                    cpu: cpu.u32(r)?,
                    state: Some(state.u32(r)?).filter(|state| *state != u32::MAX),
                })
            })
        }
        ("power", "cpu_frequency") => {
            let (state, cpu) = (state?, cpu?);
            Box::new(move |r, _| Some(Body::Frequency { cpu: cpu.u32(r)?, khz: state.u32(r)? }))
        }
        _ => return None,
    })
}
