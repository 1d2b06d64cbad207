//! Which driver a run is to use. Must not know how one is opened.

use serde::{Deserialize, Serialize};

use super::backend::{InheritBy, Profile};

/// The receive area of each process, in bytes: Android's, 1 MiB less two pages.
pub const AREA_BYTES: u64 = (1 << 20) - 2 * 4096;

/// Which driver is wished for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverChoice {
    /// The kernel's where it is usable, else the emulated one.
    #[default]
    Auto,
    /// The kernel's, on any free device.
    Kernel,
    /// The kernel's, on this device.
    Device(DevicePath),
    /// The emulated one.
    Emulated,
}

/// The path of a binder device. Kept for the rest of the process's life, so that plans stay plain
/// values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DevicePath(&'static str);

impl DevicePath {
    /// As text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl From<String> for DevicePath {
    fn from(path: String) -> Self {
        Self(path.leak())
    }
}

impl<'de> Deserialize<'de> for DevicePath {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(from).map(Self::from)
    }
}

/// The driver of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverPlan {
    /// Which one.
    pub choice: DriverChoice,
    /// Whose priority rules an emulated one follows.
    pub profile: Profile,
    /// How real-time priorities are lent over an emulated one.
    #[serde(default, rename = "lending", skip_serializing_if = "InheritBy::is_default")]
    pub inherit_by: InheritBy,
}
