//! The driver that a run uses. Must not know how a driver is opened.

use serde::{Deserialize, Serialize};

use roundtrip_vocabulary::{InheritBy, Profile};

/// The receive area of each process, in bytes. As in Android: 1 MiB minus two pages.
pub const AREA_BYTES: u64 = (1 << 20) - 2 * 4096;

/// The requested driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverChoice {
    /// The kernel's driver if it is usable, else the emulated driver.
    #[default]
    Auto,
    /// The kernel's driver, with any free device.
    Kernel,
    /// The kernel's driver, with this device.
    Device(DevicePath),
    /// The emulated driver.
    Emulated,
}

/// The path of a binder device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DevicePath(String);

impl DevicePath {
    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for DevicePath {
    fn from(path: String) -> Self {
        Self(path)
    }
}

impl<'de> Deserialize<'de> for DevicePath {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(from).map(Self::from)
    }
}

/// The driver of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverPlan {
    /// The requested driver.
    pub choice: DriverChoice,
    /// The kernel whose priority rules an emulated driver follows.
    pub profile: Profile,
    /// How an emulated driver implements real-time inheritance.
    #[serde(default, skip_serializing_if = "InheritBy::is_default")]
    pub inherit_by: InheritBy,
}
