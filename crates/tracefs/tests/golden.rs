//! Pages of several kernels, with the kernel's own text for the same buffers (`trace`): all events
//! must be the same, in the same order. `cargo run -p roundtrip-tracefs --example capture` makes
//! such a fixture.

#[allow(dead_code)]
mod common;

use common::fixture::Fixture;
use common::text::compare;

#[test]
fn every_event_of_every_kernel_is_what_the_kernels_text_says() {
    for fixture in Fixture::all() {
        let trace = fixture.trace();
        let fields = compare(&trace, &fixture.text);
        assert!(fields > 200, "{}: only {fields} events were compared to their fields", fixture.name);
        assert!(trace.losses.iter().all(|loss| !loss.damaged), "{}: {:?}", fixture.name, trace.losses);
    }
}
