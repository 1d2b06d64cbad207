//! `roundtrip storage study`: repeats the experiments of the study of 2012 on the layers of a
//! write.

use roundtrip_run::storage::interference::{Condition, InterferencePlan};
use roundtrip_run::storage::{Api, StoragePlan};

use super::storage_interference::{HOW, Typed, duration, measure, rounds};
use super::{gates, output, storage_options};
use crate::args::{Entry, Group, Kind};

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["storage", "study"],
    kind: Kind::Command,
    summary: "repeats the storage study of 2012: its figures 4 to 6 and its claims",
    description: "Repeats the experiments of 'Performance Analysis on Storage IO Software Layer of Android Platform': a \
                  Java program makes synchronous writes of 4 KiB to 1 MiB, alone and beside a process that only \
                  computes. Shows by size how a write is divided among platform, kernel and device (figure 4), the \
                  application's response with and without that process (figure 5), and the device's (figure 6). \
                  Contention, the waits for a CPU that other threads have, is a part of its own. Says of each of \
                  the study's claims whether it holds here, and why.\n\n\
                  This is 'storage interference' with other defaults, and stores the same run. The kernel's \
                  events need root.",
    positionals: None,
    groups: &[
        Group { heading: "How long", options: &[rounds(), duration("3m")] },
        Group {
            heading: "What to write",
            options: &[
                storage_options::file(),
                storage_options::sizes("4k,8k,16k,32k,64k,128k,256k,512k,1M"),
                storage_options::writers("java-file"),
                storage_options::durability(),
                storage_options::position(),
                storage_options::file_size(),
                storage_options::warm_up("5"),
            ],
        },
        HOW,
        gates::group(),
        output::group(),
    ],
    examples: &[
        ("roundtrip storage study --out study", "Repeats the study in about three minutes."),
        ("roundtrip report study -o study.html", "Draws its figures."),
    ],
    run: |typed, terminal| measure(&typed, plan(), "storage study", terminal),
};

/// What the study measured.
fn plan() -> InterferencePlan {
    let default = InterferencePlan::default();
    InterferencePlan {
        write: StoragePlan {
            sizes_bytes: (12..=20).map(|power| 1 << power).collect(),
            apis: vec![Api::JavaFile],
            ..default.write
        },
        conditions: vec![Condition::HogOther],
        duration_ns: 180_000_000_000,
        ..default
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values;

    #[test]
    fn the_help_says_the_defaults() {
        let plan = plan();
        assert!(plan.check().is_ok());
        assert_eq!(values::duration_ns("3m"), Ok(plan.duration_ns));
        assert_eq!((plan.rounds, plan.write.warm_up), (9, 5));
        assert_eq!(
            (plan.write.sizes_bytes.first(), plan.write.sizes_bytes.last()),
            (Some(&4096), Some(&(1 << 20)))
        );
    }
}
