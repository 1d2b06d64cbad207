//! Notification state of a handle: the death of its object and the frozen state of the owner, with
//! the recipients of each. This file does not talk to a driver.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) type Recipient = Box<dyn FnOnce() + Send>;

/// The state of a proxy's death notification.
#[derive(Default)]
pub(crate) enum Death {
    #[default]
    NotAsked,
    /// Requested from the driver, with this cookie.
    Asked(u64, Vec<(DeathLink, Recipient)>),
    Happened,
}

impl Death {
    pub(crate) fn cookie(&self) -> Option<u64> {
        if let Self::Asked(cookie, _) = self { Some(*cookie) } else { None }
    }
}

impl fmt::Debug for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAsked => "not asked",
            Self::Asked(..) => "asked",
            Self::Happened => "happened",
        })
    }
}

/// A linked recipient, for [`Proxy::unlink_to_death`](crate::Proxy::unlink_to_death).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeathLink(u64);

impl DeathLink {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) type Listener = Arc<dyn Fn(bool) + Send + Sync>;

/// The state of a proxy's freeze notification.
#[derive(Default)]
pub(crate) enum Frozen {
    #[default]
    NotAsked,
    /// Requested from the driver.
    Asked(Asked),
}

/// A pending request to the driver.
pub(crate) struct Asked {
    pub(crate) cookie: u64,
    /// The state that the driver last reported.
    pub(crate) state: Option<bool>,
    pub(crate) listeners: Vec<(FrozenLink, Listener)>,
}

impl Frozen {
    pub(crate) fn cookie(&self) -> Option<u64> {
        if let Self::Asked(asked) = self { Some(asked.cookie) } else { None }
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAsked => "not asked",
            Self::Asked(Asked { state: None, .. }) => "asked",
            Self::Asked(Asked { state: Some(true), .. }) => "frozen",
            Self::Asked(Asked { state: Some(false), .. }) => "not frozen",
        })
    }
}

/// An added listener, for
/// [`Proxy::remove_frozen_listener`](crate::Proxy::remove_frozen_listener).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrozenLink(u64);

impl FrozenLink {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
