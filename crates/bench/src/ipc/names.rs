//! Converts between the types of plans and results and those of the driver and the stacks. Must not
//! know what they are used for.

use binder_driver::kernel::{Features, Language};
use run::ipc::{Backend, InheritBy, Profile};

/// The priority rules that an emulated driver follows.
pub(super) fn profile(profile: Profile) -> binder_driver::Profile {
    match profile {
        Profile::Ack => binder_driver::Profile::Ack,
        Profile::Mainline => binder_driver::Profile::Mainline,
    }
}

/// How an emulated driver implements real-time inheritance.
pub(super) fn inherit_by(inherit_by: InheritBy) -> binder_emulator::InheritBy {
    match inherit_by {
        InheritBy::Auto => binder_emulator::InheritBy::Auto,
        InheritBy::Policy => binder_emulator::InheritBy::Policy,
        InheritBy::PiFutex => binder_emulator::InheritBy::PiFutex,
    }
}

/// The backend as results name it.
pub(super) fn backend(backend: binder_driver::Backend) -> Backend {
    match backend {
        binder_driver::Backend::Kernel { device, features } => {
            Backend::Kernel { device, features: features.map(self::features) }
        }
        binder_driver::Backend::Emulated { profile } => Backend::Emulated {
            profile: match profile {
                binder_driver::Profile::Ack => Profile::Ack,
                binder_driver::Profile::Mainline => Profile::Mainline,
            },
        },
    }
}

fn features(features: Features) -> run::ipc::Features {
    let Features { protocol, language, extended_error, oneway_spam_detection, freeze, listed } = features;
    let language = language.map(|language| match language {
        Language::C => run::ipc::Language::C,
        Language::Rust => run::ipc::Language::Rust,
    });
    run::ipc::Features { protocol, language, extended_error, oneway_spam_detection, freeze, listed }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored runs and the driver must use the same names.
    #[test]
    fn backends_have_the_same_names_in_runs_and_in_the_driver() {
        let features = Features {
            protocol: 8,
            language: Some(Language::Rust),
            extended_error: true,
            oneway_spam_detection: false,
            freeze: true,
            listed: ["freeze_notification".to_owned()].into(),
        };
        let kernel =
            binder_driver::Backend::Kernel { device: "/dev/binder".into(), features: Some(features) };
        let mainline = binder_driver::Profile::Mainline;
        for driver in [kernel, binder_driver::Backend::Emulated { profile: mainline }] {
            let ours = backend(driver.clone());
            assert_eq!(serde_json::to_value(&ours).unwrap(), serde_json::to_value(&driver).unwrap());
            assert_eq!(ours.in_full(), driver.in_full());
        }
        for ours in [InheritBy::Auto, InheritBy::Policy, InheritBy::PiFutex] {
            assert_eq!(serde_json::to_value(ours).unwrap(), serde_json::to_value(inherit_by(ours)).unwrap());
        }
    }
}
